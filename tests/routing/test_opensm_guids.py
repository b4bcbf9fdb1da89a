"""Lists of GUIDs in files that OpenSM's options name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder, NodeKind
from weft.fabrics.formats import FormatWarning
from weft.routing.opensm.guids import GuidKind, guid_list, listed_nodes, read_guids
from weft.routing.opensm.ports import by_port_guid, explain_guid, port_guids


def cluster() -> Fabric:
    """Build two switches, an aggregation node and two hosts with two ports each.

    One port of the second host has no cable.
    """
    build = FabricBuilder("cluster")
    switches = build.switches(["s1", "s2"], ports=8)
    twin, single = build.hosts(["twin", "single"], ports=2)
    (aggregation,) = build.hosts(["aggregation"])
    build.connect([twin, twin, single], [0, 1, 1])
    build.connect([aggregation], [switches[0]])
    build.connect([0], [1])
    parts = build.parts()
    parts.kind[aggregation] = NodeKind.AUXILIARY
    return Fabric.of(parts)


def write(folder: Path, text: str) -> Path:
    path = folder / "guids"
    path.write_text(text)
    return path


def test_each_kind_of_list_gives_its_indices(tmp_path: Path) -> None:
    fabric = cluster()
    guids = port_guids(fabric)
    assert fabric.num_endpoints == 4
    roots = write(tmp_path, f"# roots\n\n  {fabric.node_guid[1]:#x}\tspine # a\r\n")
    assert read_guids(fabric, roots, kind="root").tolist() == [1]
    adapters = write(tmp_path, f"{guids[3]:#018x}\n{guids[0]:#X}\n")
    for kind in ("cn", "io", "order"):
        assert read_guids(fabric, adapters, kind=kind).tolist() == [3, 0]  # type: ignore[arg-type]
    everything = write(tmp_path, "".join(f"{guid:#x} x\n" for guid in guids[::-1]))
    assert read_guids(fabric, everything, kind="order").tolist() == [5, 4, 3, 2, 1, 0]


def test_an_option_lists_nodes_by_name_guid_and_file(tmp_path: Path) -> None:
    fabric = cluster()
    guids = [hex(guid) for guid in port_guids(fabric)]
    path = write(tmp_path, f"{guids[3]}\n")
    assert listed_nodes(fabric, ["s2", "s1"], kind="root", what="roots").tolist() == [1, 0]
    names = [guids[1], f"@{path}", "twin"]
    assert listed_nodes(fabric, names, kind="cn", what="compute").tolist() == [1, 3, 0, 1]
    with pytest.raises(InputError, match="compute: s1 is not an adapter"):
        listed_nodes(fabric, ["s1"], kind="cn", what="compute")
    with pytest.raises(InputError, match="roots is empty; expected at least one node"):
        listed_nodes(fabric, [], kind="root", what="roots")


def test_the_port_of_a_guid_is_named_with_or_without_a_cable() -> None:
    build = FabricBuilder("back to back")
    build.connect(build.hosts(["a"], ports=2), build.hosts(["b"]))
    fabric = build.fabric()
    for node in (0, 1):
        slot = fabric.port_offset[node]
        text = explain_guid(fabric, int(fabric.port_guid[slot]))
        assert text == f"the GUID of port {fabric.port_name(node, 1)}"
    bare = int(fabric.port_guid[fabric.port_offset[0] + 1])
    assert explain_guid(fabric, bare) == "the GUID of port a[2], which has no cable"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (
            "root",
            "0x1\n",
            ":1: 0x0000000000000001 is not a GUID of cluster; expected the node GUID",
        ),
        ("root", "# a\n{host}\n", ":2: .* is the node GUID of twin; expected the node GUID of a s"),
        ("root", "{port}\n", "is the GUID of port twin\\[1\\]; expected the node GUID of a switch"),
        ("cn", "{switch}\n", "is the switch GUID of s1; expected the port GUID of an adapter"),
        ("cn", "{host}\n", "is the node GUID of twin; expected the port GUID of an adapter"),
        ("io", "{bare}\n", "is the GUID of port single\\[2\\], which has no cable"),
        ("order", "{switch}\n#\n{switch}\n", ":3: .* is already in line 1"),
        ("root", "spine3\n", ":1: expected a GUID such as .*, found 'spine3'"),
        ("root", "0x12345678901234567\n", "expected a GUID"),
        ("root", "0x" + "z" * 90 + "\n", "expected a GUID .*, found '0xzz.*z\\.\\.\\.'"),
        ("root", "1234\n", "expected a GUID"),
        ("root", "# nothing\n", "lists no GUID"),
        ("root", "", "is empty"),
    ],
)
def test_other_entries_than_listed_guids_are_refused(
    kind: GuidKind, text: str, message: str, tmp_path: Path
) -> None:
    fabric = cluster()
    twin, single = fabric.num_switches, fabric.num_switches + 1
    bare = fabric.port_guid[fabric.port_offset[single] + 1]
    path = write(
        tmp_path,
        text.format(
            host=hex(fabric.node_guid[twin]),
            port=hex(fabric.port_guid[fabric.port_offset[twin]]),
            switch=hex(fabric.node_guid[0]),
            bare=hex(bare),
        ),
    )
    with pytest.raises(InputError, match=message) as caught:
        read_guids(fabric, path, kind=kind)
    assert str(caught.value).startswith(str(path))


def test_guids_without_0x_cause_a_warning(tmp_path: Path) -> None:
    fabric = cluster()
    with pytest.warns(FormatWarning, match="1 GUIDs have no 0x"):
        rows = read_guids(fabric, write(tmp_path, f"{fabric.node_guid[0]:016x}\n"), kind="root")
    assert rows.tolist() == [0]
    path = write(tmp_path, f"{fabric.node_guid[0]:#x}")
    assert read_guids(fabric, path, kind="root").tolist() == [0]


@pytest.mark.parametrize(("kind", "count"), [("root", 2), ("cn", 4), ("io", 4), ("order", 6)])
def test_a_written_list_is_read_back(kind: GuidKind, count: int, tmp_path: Path) -> None:
    fabric = cluster().shuffled(3)
    indices = np.random.default_rng(1).permutation(count)
    path = write(tmp_path, guid_list(fabric, indices, kind=kind))
    assert np.array_equal(read_guids(fabric, path, kind=kind), indices)


def test_ports_that_share_a_guid_are_refused() -> None:
    build = FabricBuilder("twins")
    (switch,) = build.switches(["s"])
    build.connect(build.hosts(["a", "b"]), [switch, switch])
    parts = build.parts()
    parts.port_guid = {(1, 1): 77, (2, 1): 77}
    with pytest.raises(InputError, match=r"a\[1\] and b\[1\] have the same port GUID 0x0+4d"):
        by_port_guid(Fabric.of(parts))
