"""GraphML against networkx, and Graphviz DOT."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from weft.core.errors import NotApplicable
from weft.fabrics import Fabric, FabricBuilder, Parts
from weft.fabrics.formats import read_file, write_fabric
from weft.fabrics.formats.graphml import write as graphml
from weft.fabrics.formats.graphviz import write as dot
from weft.fabrics.topology import build


def as_networkx(fabric: Fabric) -> nx.MultiGraph:
    graph = nx.parse_graphml(graphml(fabric), force_multigraph=True)
    assert isinstance(graph, nx.MultiGraph)
    return graph


def test_graphml_describes_the_fabric() -> None:
    fabric = build("xgft:2;4,4;1,2;1,2,rate=4xNDR,host_rate=2xHDR")
    graph = as_networkx(fabric)
    assert set(graph) == set(fabric.node_names)
    assert graph.number_of_edges() == fabric.num_cables
    leaf = graph.nodes["s1-0"]
    assert (leaf["kind"], leaf["level"], leaf["forwards"]) == ("switch", 1, True)
    assert leaf["guid"] == "0x0000000000200000"
    assert leaf["ports"] == 8
    assert leaf["coordinates"] == "0,0"
    assert "lids" not in leaf
    assert graph.nodes["h3"]["kind"] == "host"
    edges = [data for _, _, data in graph.edges(data=True)]
    assert {data["rate"] for data in edges} == {"4xNDR", "2xHDR"}
    assert {data["rate_gbps"] for data in edges} == {400.0, 100.0}
    assert all("length_m" not in data for data in edges)
    for c in range(fabric.num_cables):
        link = 2 * c
        ends = [fabric.node_names[end[link]] for end in (fabric.link_from, fabric.link_to)]
        data = graph.edges[ends[0], ends[1], f"c{c}"]
        assert data["source_port"] == fabric.link_from_port[link]
        assert data["target_port"] == fabric.link_to_port[link]


def test_graphml_contains_lengths_lids_and_rates_without_a_name() -> None:
    fabric = build("xgft:1;2;1,rate=37")
    parts = Parts.of(fabric.with_lengths(np.array([3.0, np.nan])))
    parts.lid = {(0, 0): (7, 0), (1, 1): (9, 0)}
    graph = as_networkx(Fabric.of(parts))
    first, second = (graph.get_edge_data("s1-0", host) for host in ("h0", "h1"))
    assert first["c0"]["length_m"] == 3.0
    assert first["c0"]["latency_ns"] == 15.0
    assert "length_m" not in second["c1"]
    assert second["c1"]["rate_gbps"] == 37.0
    assert "rate" not in second["c1"]
    assert graph.nodes["s1-0"]["lids"] == "7"
    assert graph.nodes["h0"]["lids"] == "9"


def test_graphml_holds_any_name() -> None:
    fabric = build("xgft:1;2;1").renamed({0x200000: '<a & "b"> ü', 0x100000: "bell\x07\ud800"})
    graph = as_networkx(fabric)
    assert set(graph) == {'<a & "b"> ü', "bell\ufffd\ufffd", "h1"}


def test_graphml_distinguishes_nodes_whose_names_look_the_same() -> None:
    names = ("a\x01", "a\x02", "b\uffff", "b\ufffd")
    fabric = build("leaf-spine:leaves=1,spines=1,hosts=2")
    fabric = fabric.renamed(dict(zip(fabric.node_guid.tolist(), names, strict=False)))
    graph = as_networkx(fabric)
    assert len(graph) == fabric.num_nodes == len(names)
    assert {node: data["label"] for node, data in graph.nodes(data=True)} == {
        "S-0000000000200000": "a\ufffd",
        "S-0000000000200001": "a\ufffd",
        f"H-{int(fabric.node_guid[2]):016x}": "b\ufffd",
        "b\ufffd": "b\ufffd",
    }
    assert graph.number_of_edges("S-0000000000200000", "S-0000000000200001") == 1


def test_graphml_refuses_a_name_that_is_the_id_of_another_node() -> None:
    names = ("a\x01", "a\x02", "S-0000000000200000")
    fabric = build("leaf-spine:leaves=1,spines=1,hosts=2")
    fabric = fabric.renamed(dict(zip(fabric.node_guid.tolist(), names, strict=False)))
    with pytest.raises(NotApplicable, match="id made from the GUID"):
        graphml(fabric)


def test_graphml_of_the_real_cluster(shared: Path) -> None:
    graph = as_networkx(read_file(shared / "fabrics" / "psmn-x5.ibnetdiscover"))
    assert (len(graph), graph.number_of_edges()) == (100, 159)
    assert nx.is_connected(graph)


# -- DOT --------------------------------------------------------------------------------------

STRING = r'"(?:[^"\\\n]|\\[n"\\])*"'
STATEMENT = re.compile(
    rf"graph {STRING} \{{|  subgraph {STRING} \{{|    rank=same;|  \}}|\}}"
    r"|  rankdir=BT;|  ranksep=1.5;|  (?:node|edge) \[fontname=Helvetica, fontsize=\d+\];"
    rf"|    n\d+ \[label={STRING}, (?:shape=\w+)(?:, style=filled, fillcolor=\"#\w+\")?\];"
    rf"|  n\d+ -- n\d+(?: \[(?:label={STRING})?(?:, )?(?:penwidth=[\d.]+)?\])?;"
)


def check_dot(text: str, tmp_path: Path) -> None:
    """Check that every line is a known statement, and run Graphviz where it is installed."""
    for line in text.splitlines():
        assert STATEMENT.fullmatch(line), line
    assert text.count("{") == text.count("}")
    if shutil.which("dot"):
        (tmp_path / "f.dot").write_text(text)
        subprocess.run(["dot", "-Tsvg", "-o", tmp_path / "f.svg", tmp_path / "f.dot"], check=True)


def test_dot_has_a_row_per_level(tmp_path: Path) -> None:
    text = dot(build("xgft:2;2,2;1,2;1,2"))
    check_dot(text, tmp_path)
    rows = re.findall(r'subgraph "level (\d)" \{\n(.*?)\n  \}', text, re.DOTALL)
    assert {int(level): body.count("label=") for level, body in rows} == {0: 4, 1: 2, 2: 2}
    # Parallel cables are drawn as one edge, without a rate label when all rates are equal.
    assert text.count(" -- ") == 4 + 4
    assert text.count('[label="2", penwidth=2]') == 4


def test_dot_labels_rates_where_they_differ(tmp_path: Path) -> None:
    fabric = build("xgft:2;2,2;1,2;1,2,host_rate=4xEDR").degraded(["s1-0[3]"], "4xSDR")
    text = dot(fabric)
    check_dot(text, tmp_path)
    assert text.count('"4xEDR"') == 4
    assert text.count('"2 × 4xHDR"') == 3
    assert text.count('"4xSDR"') == 1


def test_dot_without_hosts(tmp_path: Path) -> None:
    text = dot(build("xgft:2;3,2;1,2"), hosts=False)
    check_dot(text, tmp_path)
    assert 'label="s1-0\\n3 hosts"' in text
    assert "ellipse" not in text
    assert text.count(" -- ") == 4


def test_dot_rows_of_a_fabric_without_levels(tmp_path: Path) -> None:
    fabric = build("xgft:3;2,2,2;1,2,2").shuffled(1)
    text = dot(fabric)
    check_dot(text, tmp_path)
    rows = re.findall(r'subgraph "level (\d)" \{\n(.*?)\n  \}', text, re.DOTALL)
    assert {int(level): body.count("label=") for level, body in rows} == {0: 8, 1: 4, 2: 4, 3: 4}


def test_dot_quotes_names(tmp_path: Path) -> None:
    maker = FabricBuilder('odd "name"\n')
    maker.connect(maker.switches(['a"b\\']), maker.hosts(["x\ny"]))
    text = dot(maker.fabric())
    check_dot(text, tmp_path)
    assert r'label="a\"b\\"' in text


def test_dot_of_the_real_cluster(shared: Path, tmp_path: Path) -> None:
    fabric = read_file(shared / "fabrics" / "psmn-x5.ibnetdiscover")
    text = dot(fabric)
    check_dot(text, tmp_path)
    assert text.count("shape=ellipse") == 89
    assert text.count("4xDDR") == 23


@pytest.mark.parametrize("name", ["f.dot", "f.gv", "f.graphml"])
def test_the_file_name_determines_the_format(name: str, tmp_path: Path) -> None:
    write_fabric(build("xgft:1;2;1"), tmp_path / name)
    start = "<?xml" if name.endswith("graphml") else "graph "
    assert (tmp_path / name).read_text().startswith(start)
