"""Several files about one fabric: what each adds, contradictions, folders."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from weft import fabric
from weft.core.errors import InputError
from weft.fabrics import Fabric, NodeKind, Parts
from weft.fabrics.formats import FormatWarning, write_fabric
from weft.fabrics.formats.merge import merged
from weft.fabrics.formats.netlist import Netlist, NodeRecord, PortRecord
from weft.fabrics.topology import build


def found(*paths: Path) -> tuple[Fabric, list[FormatWarning]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read = fabric(paths[0], also=paths[1:])
    return read, [each.message for each in caught if isinstance(each.message, FormatWarning)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree.ibnetdiscover"
    write_fabric(build("xgft:2;4,4;1,2"), path)
    return path


def changed(path: Path, name: str, *pairs: tuple[str, str]) -> Path:
    text = path.read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    other = path.with_name(name)
    other.write_text(text)
    return other


def test_rates_come_from_the_file_that_has_them(tree: Path) -> None:
    lacking = changed(tree, "lacking", (" 4xHDR\n", "\n"))
    slow = changed(tree, "slow", ("4xHDR", "4xNDR"))
    read, said = found(lacking, slow)
    assert not said
    assert set(read.cable_rate_gbps) == {400.0}
    assert np.array_equal(read.port_link, fabric(tree).port_link)


def test_contradictions_of_rates_are_listed_and_the_first_file_holds(tree: Path) -> None:
    lines = tree.read_text().split("\n")
    at = next(number for number, line in enumerate(lines) if line.endswith("4xHDR"))
    lines[at] = lines[at].replace("4xHDR", "1xSDR")
    other = tree.with_name("other")
    other.write_text("\n".join(lines))
    read, said = found(tree, other)
    assert set(read.cable_rate_gbps) == {200.0}
    assert [(each.kind, len(each.items), each.severity) for each in said][1:] == []
    assert "4xHDR and 1xSDR" in str(said[0])
    assert "tree.ibnetdiscover holds" in str(said[0])


def test_cables_of_another_day_are_contradictions_with_their_number(tree: Path) -> None:
    whole = fabric(tree)
    inner = next(c for c in range(whole.num_cables) if whole.link_to[2 * c] < whole.num_switches)
    less = tree.with_name("less.ibnetdiscover")
    write_fabric(whole.without(cables=[inner]), less)
    read, said = found(tree, less)
    assert read.num_cables == whole.num_cables
    assert [(len(each.items), each.lost) for each in said] == [(1, 0)]
    read, said = found(less, tree)
    assert read.num_cables == whole.num_cables - 1
    assert [(len(each.items), each.lost) for each in said] == [(1, 1)]


def test_two_fabrics_are_refused(tree: Path) -> None:
    other = tree.with_name("ring.ibnetdiscover")
    parts = Parts.of(build("ring:3"))
    parts.guid = parts.guid + np.uint64(1 << 40)
    write_fabric(Fabric.of(parts), other)
    with pytest.raises(InputError, match=r"no node in common with .*: they describe two fabrics"):
        fabric(tree, also=[other])


def test_a_folder_is_merged_with_its_names(tree: Path) -> None:
    whole = fabric(tree)
    guid = int(whole.node_guid[0])
    (tree.parent / "names.map").write_text(f'0x{guid:016x} "core of the hall"\n')
    (tree.parent / "notes.txt").write_text("nothing of use\n")
    (tree.parent / "empty").write_text("")
    read, said = found(tree.parent)
    assert read.digest == whole.digest
    assert read.node_names[0] == "core of the hall"
    assert [set(each.items) for each in said] == [{"notes.txt (unknown)", "empty (empty)"}]


def test_folders_that_are_too_deep_are_named(tree: Path) -> None:
    deep = tree.parent / "a" / "b" / "c" / "d"
    deep.mkdir(parents=True)
    (deep / "more.ibnetdiscover").write_text(tree.read_text())
    read, said = found(tree.parent)
    assert read.digest == fabric(tree).digest
    assert [each.items for each in said] == [(str(deep),)]


def test_a_folder_without_a_fabric_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n[1-4]\n")
    with pytest.raises(InputError, match=r"holds topology\.conf \(a topology file of Slurm"):
        fabric(tmp_path)


def nodes_of(net: Netlist, *guids: int, ports: int = 0) -> None:
    for guid in guids:
        kind = NodeKind.SWITCH if guid < 10 else NodeKind.HOST
        net.add_node(NodeRecord(1, kind, ports, f"n{guid}", guid, f"n{guid}"))


def test_files_of_single_nodes_make_one_fabric() -> None:
    """Each file has the cables of one node, listed at one end, and no numbers of ports."""
    nets = []
    for guid in (11, 12):
        net = Netlist(f"of {guid}", whole=False)
        nodes_of(net, guid, 1)
        net.ports.append(PortRecord(2, 0, 1, "n1", guid - 10, (1, 3), lid=guid))
        nets.append(net)
    read = merged(nets).fabric()
    assert (read.num_switches, read.num_hosts, read.num_cables) == (1, 2, 2)
    assert read.num_ports.tolist() == [2, 1, 1]
    assert read.lid[:2].tolist() == [11, 12]


def test_a_port_of_a_single_file_that_leads_to_two_others_is_refused() -> None:
    net = Netlist("one", whole=False)
    nodes_of(net, 1, 11, 12)
    net.ports += [PortRecord(2, 0, 1, "n11", 1), PortRecord(3, 0, 1, "n12", 1)]
    other = Netlist("other", whole=False)
    nodes_of(other, 1)
    with pytest.raises(InputError, match="leads to two other ports") as error:
        merged([net, other])
    assert error.value.line == 3


def test_two_files_that_give_one_port_different_cables_contradict_each_other() -> None:
    nets = []
    for guid in (11, 12):
        net = Netlist(f"of {guid}", whole=False)
        nodes_of(net, guid, 1)
        net.ports.append(PortRecord(2, 0, 1, "n1", 1, (1, 3)))
        nets.append(net)
    with pytest.warns(FormatWarning, match="1 contradiction to of 11 of cables") as said:
        read = merged(nets).fabric()
    assert read.num_cables == 1
    assert said[0].message.lost == 1  # type: ignore[union-attr]


def test_a_list_of_nodes_alone_is_no_fabric() -> None:
    net = Netlist("nodes", whole=False)
    nodes_of(net, 1, 11, ports=4)
    with pytest.raises(InputError, match="no cables"):
        net.fabric()


def test_cables_listed_at_one_end_are_mirrored() -> None:
    net = Netlist("links")
    nodes_of(net, 1, 11, ports=4)
    net.ports += [PortRecord(2, 0, 3, "n11", 1, (1, 3)), PortRecord(3, 1, 1, lid=5)]
    net.mirror()
    read = net.fabric()
    assert read.num_cables == 1
    assert read.lid[0] == 5


def test_a_lid_that_is_not_assigned_yet_does_not_contradict_one(tree: Path) -> None:
    """The first file has LIDs of 0 at both ends of a cable, the second one those of nodes only."""
    first, second = Netlist("a"), Netlist("b", whole=False)
    for net, lid in ((first, 0), (second, 7)):
        nodes_of(net, 1, 11, ports=1)
        net.nodes[0].lid = lid
    first.ports.append(PortRecord(2, 0, 1, "n11", 1, (1, 3), peer_lid=0))
    first.ports.append(PortRecord(3, 1, 1, "n1", 1, (1, 3), lid=0, peer_lid=0))
    second.ports.append(PortRecord(2, 1, 1, lid=9))
    assert merged([first, second]).fabric().lid.tolist() == [9, 7]


def test_adapters_of_one_name_and_successive_guids_are_kept_apart() -> None:
    """A list of ports has the GUIDs of ports, which are those of the nodes of such adapters."""
    nodes = Netlist("nodes", whole=False)
    nodes_of(nodes, 1, 32, 33)
    ports = Netlist("ports", known_by="port")
    nodes_of(ports, 1, 32, 33, ports=2)
    for net in (nodes, ports):
        for node in net.nodes[1:]:
            node.description = "MT4123 ConnectX6   Mellanox Technologies"
    for at, guid in ((1, 32), (2, 33)):
        ports.ports.append(PortRecord(2, 0, at, f"n{guid}", 1, (1, 3)))
        ports.ports.append(PortRecord(3, at, 1, "n1", at, lid=guid, guid=guid))
    read = merged([nodes, ports]).fabric()
    assert (read.node_guid.tolist(), read.lid[:2].tolist()) == ([1, 32, 33], [32, 33])


def test_the_first_of_two_files_of_names_holds(tree: Path) -> None:
    """Also of files that are given, and not found in a folder."""
    guids = fabric(tree).node_guid.tolist()
    maps = [tree.with_name(name) for name in ("a.map", "b.map")]
    for path, name in zip(maps, ("one", "two"), strict=True):
        path.write_text(f'{guids[0]:#x} "{name}"\n{guids[1]:#x} "core"\n')
    for paths in ([tree.parent], [tree, *maps]):
        read, said = found(*paths)
        assert read.node_names[:2] == ("one", "core")
        assert [(each.kind, each.items) for each in said] == [
            ("contradiction of names", ("'two' and 'one'",))
        ]
    with pytest.raises(InputError, match=r"a\.map: is a node-name-map; expected a file that"):
        fabric(maps[0])
