"""Node-name-maps in both of their spellings."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics.formats import FormatWarning, read_file, write_fabric
from weft.fabrics.formats.node_name_map import (
    MappedName,
    parse_names,
    read_names,
    with_names,
    write,
)
from weft.fabrics.topology import build


def test_both_spellings_are_read() -> None:
    text = (
        "# names\n"
        '0x0008F10500108c5c "spine 3 # upper" # trailing words\n'
        "\n"
        "  H-78e7d10300227744 sl390lin1 # login\n"
        "\t# indented comment\n"
        "0x12\tplain name\n"
    )
    assert parse_names(text, "m") == {
        0x0008F10500108C5C: MappedName("spine 3 # upper", 2),
        0x78E7D10300227744: MappedName("sl390lin1", 4),
        0x12: MappedName("plain name", 6),
    }


def test_a_repeated_entry_counts_once() -> None:
    assert parse_names("0x1 a\n0x01 a\n", "m") == {1: MappedName("a", 1)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0x12", "expected a GUID and a name"),
        ('0x12 ""', "expected a GUID and a name"),
        ("0x12 # nothing", "expected a GUID and a name"),
        ('0x12 "a" b', "expected a GUID and a name"),
        ('0x12 "a', "expected a GUID and a name"),
        ("12 a", "expected a GUID and a name"),
        ("H-12 a", "expected a GUID and a name"),
        ("0x12345678901234567 a", "expected a GUID and a name"),
        ("0x1 " + "a" * 3000, "expected a GUID and a name"),
        ("0x0a other", "the name 'other' here and 'first' in line 1"),
    ],
)
def test_bad_lines_are_refused(line: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_names(f"0xa first\n{line}\n", "m")
    assert (caught.value.file, caught.value.line) == ("m", 2)


def test_a_map_without_entries_is_refused() -> None:
    with pytest.raises(InputError, match="has no entry"):
        parse_names("# only words\n", "m")


def test_names_become_labels(tmp_path: Path) -> None:
    fabric = build("xgft:1;3;1")
    target = tmp_path / "f.net"
    write_fabric(fabric, target)
    names = tmp_path / "names"
    names.write_text('0x200000 "the switch"\nH-0000000000100002 h0\n')
    named = read_file(target, names=names)
    # h0 is now the name of the second host, so the first host gets its GUID.
    assert named.node_names == ("the switch", "H-0000000000100000", "h0", "h2")
    assert named.digest == fabric.digest


def test_names_of_unknown_nodes_are_counted() -> None:
    fabric = build("xgft:1;3;1")
    names = {0x200000: MappedName("x", 1), 0x7: MappedName("y", 2), 0x8: MappedName("z", 3)}
    with pytest.warns(
        FormatWarning, match=r"the GUIDs of 2 of 3 names: 0x0000000000000007 'y', 0x0"
    ):
        assert with_names(fabric, names, "m").node_names[0] == "x"


def test_nodes_with_one_name_keep_their_own_labels() -> None:
    fabric = build("xgft:1;3;1")
    names = {
        0x100000: MappedName("x", 1),
        0x100002: MappedName("x", 2),
        0x100004: MappedName("h1", 3),
    }
    with pytest.warns(FormatWarning, match="2 nodes share a name .* their own labels: 'x' of 2$"):
        named = with_names(fabric, names, "m")
    # h1 is now the name of the third host, so the second one has the id of its GUID.
    assert named.host_names == ("h0", "H-0000000000100002", "h1")


def test_a_written_map_is_read_back() -> None:
    fabric = build("xgft:2;4,4;1,2")
    names = parse_names(write(fabric), "m")
    assert [names[guid].text for guid in fabric.node_guid.tolist()] == list(fabric.node_names)
    assert write(fabric).splitlines()[1] == '0x0000000000200000 "s1-0"'


def test_labels_that_a_map_cannot_hold_are_refused() -> None:
    fabric = build("xgft:1;3;1")
    for bad in ('a"b', " a", "", "a\nb"):
        with pytest.raises(NotApplicable, match="label"):
            write(fabric.renamed({0x200000: bad}))
    with pytest.warns(FormatWarning, match="1 label with a #"):
        text = write(fabric.renamed({0x200000: "a # b"}))
    assert parse_names(text, "m")[0x200000].text == "a # b"


def test_a_real_map_is_read(shared: Path) -> None:
    names = read_names(shared / "fabrics" / "psmn-x5.node-name-map")
    assert len(names) == 86
    assert names[0x78E7D10300227744].text == "sl390lin1"
