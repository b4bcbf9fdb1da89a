"""`weft.fabrics.load.fabric`: reading of files and specs; writing of files."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from weft.core.errors import InputError, NotApplicable
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.formats import FormatWarning, read_file, reader, write_fabric, writer
from weft.fabrics.load import fabric
from weft.fabrics.topology import build


@pytest.fixture
def topo(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.txt"
    write_fabric(build("xgft:1;3;1"), path, "ibnetdiscover")
    return path


def test_a_spec_is_built() -> None:
    assert fabric("xgft:1;3;1").digest == build("xgft:1;3;1").digest


def test_a_file_is_read(topo: Path) -> None:
    assert fabric(topo).digest == build("xgft:1;3;1").digest
    assert fabric(str(topo)).name == str(topo)


@pytest.mark.parametrize("format_name", ["ibnetdiscover", "ibsim"])
def test_the_format_is_recognised_by_the_contents(format_name: str, tmp_path: Path) -> None:
    path = tmp_path / "anything"
    write_fabric(build("xgft:2;2,2;1,2"), path, format_name)
    text = path.read_text()
    assert [entry.name for entry in reader if entry.facts["sniff"](text)] == [format_name]
    assert fabric(path).num_hosts == 4


def test_a_file_wins_over_a_spec_of_the_same_name(
    topo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(topo.parent)
    topo.rename(topo.with_name("xgft:1;9;1"))
    assert fabric("xgft:1;9;1").num_hosts == 3


def test_names_are_read_from_a_node_name_map(topo: Path) -> None:
    names = topo.with_name("names")
    names.write_text('0x200000 "the switch"\n')
    assert fabric(topo, names=names).node_names[0] == "the switch"
    assert fabric("xgft:1;3;1", names=names).node_names[0] == "the switch"
    with pytest.raises(InputError, match="nowhere: cannot be read"):
        fabric(topo, names="nowhere")


@pytest.mark.parametrize("text", ["cluster.topo", "", "nonsense", "a/b\0c", "x" * 5000])
def test_a_text_that_is_neither_file_nor_topology_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        fabric(text)
    assert "is neither a file nor a topology: no such file, and no family" in str(caught.value)


def test_a_similar_family_is_suggested_for_a_mistyped_one() -> None:
    with pytest.raises(InputError, match=r"no family 'xgtf' \(did you mean 'xgft'\?\)"):
        fabric("xgtf:1;3;1")


def test_a_spec_with_bad_parameters_is_not_called_a_missing_file() -> None:
    with pytest.raises(InputError) as caught:
        fabric("xgft:2;4")
    assert "neither" not in str(caught.value)


def test_a_path_object_is_never_a_spec() -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        fabric(Path("xgft:1;3;1"))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        fabric("xgft:1;3;1", format="ibsim")


def test_arguments_of_other_types_are_refused() -> None:
    with pytest.raises(InputError, match="expected a file or a spec, not 3"):
        fabric(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"Switch\x00", "is a binary file"),
        ("Switch 4 'x'\n".encode("utf-16"), "is a binary file"),
        (b"# fine\nSwitch \xff\n", "byte 0xff is not UTF-8"),
        (b"hello\nworld\n", "is not in a format that weft reads; formats are .*ibnetdiscover, "),
        (b'0x12 "name"\n', "is a node-name-map"),
        (b"SwitchName=a Nodes=b\n", "is a topology file of Slurm, .*; give the output of ibnet"),
        (b"- topology: a\n  flat: true\n", "is a topology file of Slurm, .*; give the output of"),
        (b"\x1f\x8b\x08\x00", "is compressed by gzip; unpack it first"),
    ],
)
def test_files_without_a_fabric_are_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        fabric(str(path))
    assert caught.value.file == str(path)
    assert caught.value.line == (2 if b"\xff\n" in data else None)


def test_a_byte_order_mark_and_dos_line_ends_are_accepted(topo: Path) -> None:
    topo.write_bytes(b"\xef\xbb\xbf" + topo.read_bytes().replace(b"\n", b"\r\n"))
    assert fabric(topo).digest == build("xgft:1;3;1").digest


def test_empty_folders_and_devices_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the folder has no files"):
        fabric(str(tmp_path))
    with pytest.raises(InputError, match="is a device"):
        fabric("/dev/zero")


def test_a_file_without_read_permission_is_refused(
    topo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        fabric(topo)


def test_a_pipe_is_read(topo: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = topo.read_bytes()
    feeder = threading.Thread(target=lambda: pipe.write_bytes(text))
    feeder.start()
    try:
        assert fabric(str(pipe)).num_hosts == 3
    finally:
        feeder.join()


def test_unknown_formats_and_options_are_refused(topo: Path) -> None:
    with pytest.raises(InputError, match=r"unknown readable format 'ibsin' \(did you mean"):
        read_file(topo, "ibsin")
    with pytest.raises(InputError, match="'ibnetdiscover' has no option 'colour'"):
        read_file(topo, colour="red")
    with pytest.raises(InputError, match="unknown writable format"):
        write_fabric(build("xgft:1;3;1"), topo, "xml")
    with pytest.raises(InputError, match="'dot' has no option 'colour'"):
        write_fabric(build("xgft:1;3;1"), topo, "dot", colour="red")


def test_the_suffix_must_determine_the_format(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown file suffix; .* formats dot \(.dot .gv\)"):
        write_fabric(build("xgft:1;3;1"), tmp_path / "f.xyz")


def test_every_format_has_a_summary_and_suffixes() -> None:
    assert reader.names() == [
        "db-csv", "ibdm", "iblinkinfo", "ibnetdiscover", "ibnetdiscover-p", "ibsim", "lldp",
        "net-dump", "net-dump-ext", "node-list", "opensm-subnet", "saquery", "sonic-lldp",
    ]  # fmt: skip
    assert writer.names() == [
        "dot",
        "graphml",
        "ibnetdiscover",
        "ibsim",
        "kubernetes",
        "node-name-map",
        "slurm",
        "slurm-yaml",
    ]
    for registry in (reader, writer):
        for entry in registry:
            assert entry.summary
            assert entry.facts["suffixes"]


# -- writing ----------------------------------------------------------------------------------


def bad_fabric() -> Fabric:
    maker = FabricBuilder("f", rate=37.0)
    maker.connect(maker.switches(["s"]), maker.hosts(["h"]))
    return maker.fabric()


def test_a_refused_write_leaves_the_old_file(topo: Path) -> None:
    before = topo.read_bytes()
    with pytest.raises(NotApplicable):
        write_fabric(bad_fabric(), topo, "ibnetdiscover")
    assert topo.read_bytes() == before
    assert list(topo.parent.iterdir()) == [topo]


def test_a_write_that_fails_leaves_the_old_file(
    topo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = topo.read_bytes()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="cannot be written: No space left"):
        write_fabric(build("xgft:1;9;1"), topo, "ibsim")
    assert topo.read_bytes() == before
    assert list(topo.parent.iterdir()) == [topo]


def test_replacing_a_file_keeps_its_mode_and_follows_links(topo: Path) -> None:
    topo.chmod(0o640)
    link = topo.with_name("link.topo")
    link.symlink_to(topo)
    write_fabric(build("xgft:1;9;1"), link)
    assert link.is_symlink()
    assert stat.S_IMODE(topo.stat().st_mode) == 0o640
    assert fabric(topo).num_hosts == 9


def test_folders_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "x.dot").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        write_fabric(build("xgft:1;3;1"), tmp_path / "x.dot")
    with pytest.raises(InputError, match="cannot be written: No such file"):
        write_fabric(build("xgft:1;3;1"), tmp_path / "missing" / "x.dot")


def test_devices_are_written_to(capfd: pytest.CaptureFixture[str]) -> None:
    write_fabric(build("xgft:1;3;1"), "/dev/null", "dot")
    assert Path("/dev/null").is_char_device()


def test_the_same_fabric_gives_the_same_file(tmp_path: Path) -> None:
    tree = build("xgft:2;4,4;1,2")
    for entry in writer:
        write_fabric(tree, tmp_path / "a", entry.name)
        write_fabric(build("xgft:2;4,4;1,2"), tmp_path / "b", entry.name)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes(), entry.name


def test_warnings_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f.net"
    path.write_text('Switch 2 "a"\n[1]"b"[1]\n\nCa 1 "b"\n[1]"a"[1]\n')
    with pytest.warns(FormatWarning, match=f"^{path}: 1 of 1 cable without a rate"):
        fabric(path)
