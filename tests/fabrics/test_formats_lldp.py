"""An Ethernet fabric is read from what its devices see, in each layout, as it was cabled."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.core.errors import InputError
from weft.fabrics import Fabric, NodeKind
from weft.fabrics.formats import FormatWarning, read_file
from weft.fabrics.topology import build

#: Layouts of the files of a switch.
LAYOUTS = ("json", "json0", "sonic")


def sonic(port: int) -> str:
    return f"Ethernet{4 * (port - 1)}"


def sights(fabric: Fabric, node: int) -> list[tuple[int, int, int]]:
    """Return port, peer and its port of each cable of a node."""
    links = [link for link in range(fabric.num_links) if fabric.link_from[link] == node]
    return sorted(
        (int(fabric.link_from_port[k]), int(fabric.link_to[k]), int(fabric.link_to_port[k]))
        for k in links
    )


def port_name(fabric: Fabric, node: int, port: int) -> str:
    return sonic(port) if fabric.node_kind[node] == NodeKind.SWITCH else f"enp{port}s0"


def entry(fabric: Fabric, port: str, peer: int, peer_port: int, mau: str) -> dict[str, Any]:
    """Return a neighbour as json0 shows it; hosts state a MAC address as the id of a port."""
    switch = bool(fabric.node_kind[peer] == NodeKind.SWITCH)
    name = port_name(fabric, peer, peer_port)
    address = f"02:00:00:00:{peer:02x}:{peer_port:02x}"
    far = {"type": "ifname", "value": name} if switch else {"type": "mac", "value": address}
    return {
        "name": port,
        "via": "LLDP",
        "chassis": [
            {
                "id": [{"type": "mac", "value": f"02:00:00:00:00:{peer:02x}"}],
                "name": [{"value": fabric.node_names[peer] + ".cluster"}],
                "descr": [{"value": "an operating system"}],
                "capability": [
                    {"type": "Bridge", "enabled": switch},
                    {"type": "Router", "enabled": switch},
                    {"type": "Station", "enabled": not switch},
                ],
            }
        ],
        "port": [
            {
                "id": [far],
                "descr": [{"value": f"cable to {port}" if switch else name}],
                "ttl": [{"value": "120"}],
                "auto-negotiation": [{"enabled": False, "current": [{"value": mau}]}],
            }
        ],
    }


def compact(value: Any) -> Any:
    """Return the layout json of the layout json0, by the rules of lldpd's writer."""
    if isinstance(value, list):
        items = [compact(each) for each in value]
        return items[0] if len(items) == 1 else items
    if isinstance(value, dict):
        if list(value) == ["value"]:
            return value["value"]
        inner = {key: compact(each) for key, each in value.items()}
        if isinstance(inner.get("name"), str):
            return {inner.pop("name"): inner}
        return inner
    return value


def table(rows: list[tuple[str, str, str, str, str]]) -> str:
    """Return SONiC's table: columns as wide as their longest text."""
    head = ("LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr")
    wide = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(text.ljust(n) for text, n in zip(row, wide, strict=True)) for row in rows]
    title = "  ".join(text.ljust(n) for text, n in zip(head, wide, strict=True))
    dashes = "  ".join("-" * n for n in wide)
    return "\n".join(
        ["Capability codes: (R) Router, (B) Bridge, (O) Other", title, dashes, *lines, "-" * 50,
         f"Total entries displayed:  {len(rows)}", ""]
    )  # fmt: skip


def write(fabric: Fabric, folder: Path, layout: str, mau: str = "100GbaseCR4 - 4 lanes") -> None:
    folder.mkdir(exist_ok=True)
    for node in range(fabric.num_switches):
        name = fabric.node_names[node]
        seen = sights(fabric, node)
        if layout == "sonic":
            rows = []
            for port, peer, peer_port in seen:
                switch = fabric.node_kind[peer] == NodeKind.SWITCH
                far = port_name(fabric, peer, peer_port)
                address = f"02:00:00:00:{peer:02x}:{peer_port:02x}"
                names = (far, f"to {name}") if switch else (address, far)
                peer_name = fabric.node_names[peer] + ".cluster"
                rows.append((sonic(port), peer_name, names[0], "BR" if switch else "O", names[1]))
            rows.append(("eth0", "office", "Ethernet1/25", "B", "Ethernet1/25"))
            (folder / f"{name}.txt").write_text(table(rows))
            continue
        items = [entry(fabric, sonic(port), peer, at, mau) for port, peer, at in seen]
        data: Any = {"lldp": [{"interface": items}]}
        (folder / f"{name}.json").write_text(
            json.dumps(data if layout == "json0" else compact(data), indent=2)
        )


def cables(fabric: Fabric) -> dict[frozenset[tuple[str, int]], float]:
    """Return rates by the ends of cables, with ports by their rank at the node."""
    rank: dict[tuple[int, int], int] = {}
    for node in range(fabric.num_nodes):
        rank |= {(node, port): n for n, (port, _, _) in enumerate(sights(fabric, node))}
    return {
        frozenset(
            (fabric.node_names[node].removesuffix(".cluster"), rank[int(node), int(port)])
            for node, port in (
                (fabric.link_from[2 * c], fabric.link_from_port[2 * c]),
                (fabric.link_to[2 * c], fabric.link_to_port[2 * c]),
            )
        ): float(fabric.cable_rate_gbps[c])
        for c in range(fabric.num_cables)
    }


def quiet(path: Path, **options: Any) -> Fabric:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        return read_file(path, **options)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", range(4))
def test_a_folder_of_files_is_the_fabric(layout: str, seed: int, tmp_path: Path) -> None:
    spec = ("xgft:2;4,3;1,3", "xgft:3;2,2,3;1,2,2", "torus:3x3", "xgft:2;2,2;2,2")[seed]
    plan = build(spec).with_faults(cables=1, seed=seed)
    write(plan, tmp_path / "x", layout)
    found = quiet(tmp_path / "x")
    assert cables(found).keys() == cables(plan).keys()
    rate = 200.0 if layout == "sonic" else 100.0
    assert set(found.cable_rate_gbps.tolist()) == {rate}
    assert (found.num_hosts, found.num_switches) == (plan.num_hosts, plan.num_switches)
    assert not found.lid.any()


def test_switches_of_different_kinds_are_one_fabric(tmp_path: Path) -> None:
    plan = build("xgft:2;4,4;1,4")
    for layout in LAYOUTS:
        write(plan, tmp_path / layout, layout)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for node in range(plan.num_switches):
        [file] = (tmp_path / LAYOUTS[node % 3]).glob(f"{plan.node_names[node]}.*")
        (mixed / file.name).write_text(file.read_text())
    found = quiet(mixed)
    assert cables(found).keys() == cables(plan).keys()
    routes = weft.route(found, "ecmp")
    assert weft.validate(found, routes).ok


def test_a_fabric_is_read_from_some_of_its_switches(tmp_path: Path) -> None:
    """The leaf switches of a tree of two levels have all cables."""
    plan = build("xgft:2;4,3;1,2")
    write(plan, tmp_path / "x", "json")
    for node in range(3, 5):
        (tmp_path / "x" / f"{plan.node_names[node]}.json").unlink()
    assert cables(quiet(tmp_path / "x")).keys() == cables(plan).keys()


def one(folder: Path, name: str, items: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({"lldp": [{"interface": items}]}))


PLAN = build("xgft:2;2,2;1,1")


def test_ports_have_their_own_numbers_if_these_are_numbers(tmp_path: Path) -> None:
    items = [entry(PLAN, f"swp{port}", node, 1, "") for port, node in ((7, 3), (12, 4), (3, 5))]
    one(tmp_path / "x", "leaf.json", items)
    found = quiet(tmp_path / "x")
    leaf = found.node_names.index("leaf")
    assert [port for port, _, _ in sights(found, leaf)] == [3, 7, 12]
    items[0]["name"] = "swp7s0"
    one(tmp_path / "x", "leaf.json", items)
    found = quiet(tmp_path / "x")
    assert [port for port, _, _ in sights(found, found.node_names.index("leaf"))] == [1, 2, 3]


def test_management_and_ambiguous_ports_are_left_out_with_a_count(tmp_path: Path) -> None:
    items = [
        entry(PLAN, "swp1", 3, 1, "100GbaseSR4"),
        entry(PLAN, "swp2", 4, 1, "1000BaseTFD - Four-pair Category 5 UTP, full duplex mode"),
        entry(PLAN, "swp3", 5, 1, ""),
        entry(PLAN, "swp3", 6, 1, ""),
    ]
    one(tmp_path / "x", "leaf.json", items)
    with pytest.warns(FormatWarning) as caught:
        found = read_file(tmp_path / "x")
    said = {str(each.message).split(": ", 1)[1]: each.message for each in caught}
    slow = said["left out: 1 cable slower than 10 Gb/s, of a network for management: leaf swp2"]
    several = said["left out: 1 cable of ports with several neighbours: leaf swp3"]
    assert isinstance(slow, FormatWarning)
    assert isinstance(several, FormatWarning)
    assert (slow.lost, several.lost) == (1, 1)
    assert found.num_cables == 1


def test_contradictions_are_counted(tmp_path: Path) -> None:
    """Two leaves claim the same port of a spine, which has no file of its own."""
    for leaf in ("a", "b"):
        one(tmp_path / "x", f"{leaf}.json", [entry(PLAN, "swp1", 2, 1, "100GbaseCR4")])
    with pytest.warns(FormatWarning, match="1 cable to a port that another cable uses: b swp1"):
        found = read_file(tmp_path / "x")
    assert found.num_cables == 1


def test_hosts_that_forward_are_hosts_if_they_are_listed(tmp_path: Path) -> None:
    item = entry(PLAN, "swp1", 0, 1, "")
    name = item["chassis"][0]["name"][0]["value"]
    (tmp_path / "leaf.json").write_text(json.dumps({"lldp": [{"interface": [item]}]}))
    kinds = dict(zip((f := quiet(tmp_path / "leaf.json")).node_names, f.node_kind, strict=True))
    assert kinds[name] == NodeKind.SWITCH
    found = quiet(tmp_path / "leaf.json", format=f"lldp:hosts={name}")
    assert dict(zip(found.node_names, found.node_kind, strict=True))[name] == NodeKind.HOST


def test_options_of_a_folder_are_those_of_its_files_of_the_format(tmp_path: Path) -> None:
    plan = build("xgft:2;2,2;1,1")
    folder = tmp_path / "x"
    write(plan, folder, "json", mau="")
    write(plan, tmp_path / "sonic", "sonic")
    (folder / "s1-0.json").unlink()
    (folder / "s1-0.txt").write_text((tmp_path / "sonic" / "s1-0.txt").read_text())
    found = quiet(folder, format="lldp:rate=4xNDR,hosts=s2-0.cluster")
    assert set(found.cable_rate_gbps.tolist()) == {400.0}
    assert found.num_switches == 2
    with pytest.raises(InputError, match="has no option 'colour'"):
        quiet(folder, format="lldp:colour=red")


def test_the_device_is_named_by_the_text_or_the_option(tmp_path: Path) -> None:
    neighbours = json.dumps({"lldp": {"interface": compact(entry(PLAN, "swp1", 3, 1, ""))}})
    chassis = {"local-chassis": {"chassis": {"tor7": {"id": {"type": "mac", "value": "02"}}}}}
    path = tmp_path / "out.json"
    path.write_text(json.dumps(chassis) + "\n" + neighbours)
    assert "tor7" in quiet(path).node_names
    assert "here" in quiet(path, format="lldp:device=here").node_names
    path.write_text(neighbours)
    assert "out" in quiet(path).node_names


HEAD = "LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr\n"
DASHES = "-----------  --------------  --------------  ------------  -----------------\n"


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("a.json", '{"lldp": {', 1, "is not valid JSON"),
        ("a.json", '{"lldp": {}}\n{"x": 1}', None, "expected the output of lldpctl -f json"),
        ("a.json", '{"lldp": {}}\n[1]', None, "expected the output of lldpctl -f json"),
        ("a.json", '{"lldp": {}}', None, "no port has a neighbour"),
        ("a.json", '{"lldp": {"interface": {"eth1": {"chassis": {"b": {}}, "port": {}}}}}', None,
         "expected a port and its neighbour"),
        ("a.json", '{"lldp":' + "[" * 100_000, None, "is nested too deeply|is not valid JSON"),
        ("a.txt", HEAD + DASHES + "Ethernet0    b               Ethernet4       BR            x\n"
         "Total entries displayed:  2\n", 4, "states 2 entries, but lists 1"),
        ("a.txt", HEAD + DASHES + "Ethernet0                    Ethernet4       BR            x\n",
         3, "the neighbour at Ethernet0 has no name"),
        ("a.txt", HEAD + "Ethernet0    b   Ethernet4  BR  x\n", None, "no line of dashes"),
        ("a.txt", HEAD + DASHES + "Ethernet0    b               Ethernet4       BR            x\n",
         None, "it may be cut short"),
        ("a.json", '{"lldp": {"intrface": {}}}', None, "expected a list of interfaces"),
        ("a.json", '{"lldp": {"interface": {"eth1": {"port": {}, "via": "LLDP"}}}}', None,
         "eth1 has no chassis"),
        ("a.json", '{"lldp": {"interface": ["eth1"]}}', None, "expected an object with chassis"),
        ("a.txt", HEAD + DASHES + "Ethernet0    b\n", 3, "expected a local port, a device and"),
    ],
)  # fmt: skip
def test_bad_files_are_refused(
    name: str, text: str, line: int | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        quiet(path)
    assert caught.value.line == line or "nested" in message
