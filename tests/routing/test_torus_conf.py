from __future__ import annotations

from pathlib import Path

import pytest

from weft.core.errors import InputError
from weft.routing.opensm.torus_conf import SeedLink, TorusConf, TorusSeed, parse, read, write

ALL_KEYWORDS = """\
# A 4x5 torus in y and z.
  torus 1 4 5 what follows is passed over

yp_link 0x200000 0x200005  # up
ym_link 0x200000 0x20000f
zp_link 0x200000 0x200001

next_seed

yp_link 0x20000b 0x200010
ym_link 0x20000b 0x200006
zm_link 0x20000b 2097162
y_dateline -2
z_dateline 1
portgroup_max_ports 0x20
port_order 7 10 8 7 # 9
max_changes 010
"""


def test_all_keywords_are_read() -> None:
    conf = parse(ALL_KEYWORDS, "some.conf")
    assert conf.radix == (1, 4, 5)
    assert conf.wraps == (False, True, True)
    first, second = conf.seeds
    assert first.links["ym"] == SeedLink(0x200000, 0x20000F, 5)
    assert sorted(first.links) == ["ym", "yp", "zp"]
    assert first.datelines == (0, 0, 0)
    assert second.links["zm"].head_guid == 0x20000A
    assert second.datelines == (0, -2, 1)
    assert conf.portgroup_max_ports == 32
    assert conf.port_order == (7, 10, 8)
    assert conf.max_changes == 8
    assert conf.file == "some.conf"


@pytest.mark.parametrize(
    ("line", "wraps"),
    [
        ("torus 3 4M 5m", (True, False, False)),
        ("mesh 3T 4 5", (True, False, False)),
        ("torus 2 2t 1", (False, False, False)),
        ("mesh 5 1 1", (False, False, False)),
        ("torus 0x5 1 1", (True, False, False)),
    ],
)
def test_each_dimension_is_a_ring_or_a_line(line: str, wraps: tuple[bool, bool, bool]) -> None:
    links = "".join(f"{axis}{sign}_link 1 {n}{m}\n" for n, axis in enumerate("xyz", 2)
                    for m, sign in enumerate("pm"))  # fmt: skip
    conf = parse(f"{line}\n{links}")
    assert conf.wraps == wraps


X5 = "torus 5 1 1\nxp_link 1 2\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("xp_link 1 2", 1, "expected 'torus' or 'mesh' as first keyword, found 'xp_link'"),
        ("# nothing\n", None, "has no line 'torus x y z'"),
        ("torus 4 5", 1, "expected three radices"),
        ("torus 4 5 x", 1, "expected three radices"),
        ("torus 4q 5 6", 1, "expected three radices"),
        ("torus -4 5 6", 1, "expected three radices"),
        ("torus 0 5 6", 1, "a radix must be at least 1"),
        (X5 + "torus 5 1 1", 3, "there is already a line"),
        (X5 + "wp_link 1 2", 3, "unknown keyword 'wp_link'"),
        ("torus 5 1 1\nxp_link 1", 2, "expected two switch GUIDs after 'xp_link'"),
        ("torus 5 1 1\nxp_link 1 spine", 2, "expected two switch GUIDs after 'xp_link'"),
        ("torus 5 1 1\nxp_link 1 1", 2, "connects switch 0x1 to itself"),
        (X5 + "xm_link 2 1", 3, "xm_link starts at switch 0x2, but xp_link of the same seed in "),
        (X5 + "xm_link 1 2", 3, "xm_link leads to switch 0x2, as xp_link in line 2 does"),
        (X5 + "x_dateline", 3, "expected a number after 'x_dateline'"),
        (X5 + "x_dateline 5", 3, "x_dateline must be -4 to 4, not 5"),
        (X5 + "y_dateline -1", 3, "y_dateline must be 0 to 0, not -1"),
        (X5 + "portgroup_max_ports 0", 3, "portgroup_max_ports must be 1 to 2147483647, not 0"),
        (X5 + "max_changes -1", 3, "max_changes must be 0 to 2147483647, not -1"),
        (X5 + "max_changes many", 3, "expected a number after 'max_changes'"),
        (X5 + "port_order 1 256", 3, "port_order: '256' is not a port number"),
        (X5 + "next_seed", 3, "a seed has no xp_link or xm_link, but x has radix 5"),
        ("torus 5 3 1\nyp_link 1 2", 2, "a seed has no xp_link or xm_link"),
        ("torus 4 1 1\nxp_link 1 2", 2, "a seed has no xm_link, but a ring of four switches"),
        ("torus 4 1 1\nxm_link 1 2", 2, "a seed has no xp_link, but a ring of four switches"),
    ],
)
def test_errors_name_the_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(InputError) as error:
        parse(text, "t.conf")
    assert message in error.value.message
    assert error.value.line == line
    assert error.value.file == "t.conf"
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("ports", "changes"), [(1, 0), (2**31 - 1, 2**31 - 1)])
def test_least_and_greatest_numbers(ports: int, changes: int) -> None:
    conf = parse(f"{X5}portgroup_max_ports {ports}\nmax_changes {changes}\n")
    assert (conf.portgroup_max_ports, conf.max_changes) == (ports, changes)


def test_the_first_seed_may_follow_next_seed() -> None:
    assert len(parse("torus 5 1 1\nnext_seed\nxp_link 1 2\n").seeds) == 1


def test_a_line_needs_the_link_of_one_direction_only() -> None:
    assert parse("mesh 4 1 1\nxp_link 1 2\n").wraps == (False, False, False)


def test_a_written_configuration_reads_the_same(tmp_path: Path) -> None:
    conf = TorusConf(
        radix=(4, 3, 2),
        wraps=(True, False, False),
        seeds=(
            TorusSeed({"zm": SeedLink(9, 8), "xm": SeedLink(9, 1), "xp": SeedLink(9, 2),
                  "yp": SeedLink(9, 3)}, (-1, 0, -1)),
            TorusSeed({"xp": SeedLink(5, 6), "xm": SeedLink(5, 7), "yp": SeedLink(5, 0xABCDEF),
                  "zp": SeedLink(5, 4)}),
        ),
        portgroup_max_ports=40,
        port_order=(3, 1),
        max_changes=1,
    )  # fmt: skip
    text = write(conf)
    assert text.startswith("torus 4 3m 2\n")
    assert "\nyp_link 0x0000000000000005 0x0000000000abcdef\n" in text
    again = parse(text)
    assert (again.radix, again.wraps, again.port_order) == (conf.radix, conf.wraps, (3, 1))
    assert (again.portgroup_max_ports, again.max_changes) == (40, 1)
    for one, two in zip(again.seeds, conf.seeds, strict=True):
        assert one.datelines == two.datelines
        assert {k: (v.tail_guid, v.head_guid) for k, v in one.links.items()} == {
            k: (v.tail_guid, v.head_guid) for k, v in two.links.items()
        }
    path = tmp_path / "t.conf"
    path.write_text(text)
    assert write(read(path)) == text


def test_a_mesh_is_written_as_a_mesh() -> None:
    seed = TorusSeed({"xp": SeedLink(1, 2), "yp": SeedLink(1, 3)})
    conf = TorusConf(radix=(3, 4, 1), wraps=(False, False, False), seeds=(seed,))
    assert write(conf).startswith("mesh 3 4 1\n")
    assert parse(write(conf)).wraps == conf.wraps
