"""The page of routing keys, and the list of keys on the page of a simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.report.test_report_html import HOSTILE, Document, unpacked

import weft
from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.report import key_page, simulation_page
from weft.report.key_page import render_keys
from weft.report.simulation_page import render_simulation
from weft.workload import load_workload

TREE = weft.fabric("xgft:2;4,4;1,4")


def lines_of_page(fabric: Fabric, document: Document, number: int) -> list[str]:
    """Return the paths of a key, from the output ports and LIDs that the page holds."""
    found = unpacked(document.script(f"weft-key-{number}"))
    lid = unpacked(document.script("weft-lids"))["lid"]
    name = json.loads(document.script("weft-page"))["keys"][number]["name"]
    ends = zip(fabric.link_from.tolist(), fabric.link_from_port.tolist(), strict=True)
    link_at = {end: link for link, end in enumerate(ends)}
    ports, lines = iter(found["port"].tolist()), []
    for flow, hops in enumerate(found["hops"].tolist()):
        nodes = [int(found["source"][flow])]
        for _ in range(hops):
            nodes.append(int(fabric.link_to[link_at[nodes[-1], next(ports)]]))
        assert nodes[-1] == found["destination"][flow]
        path = "→".join(map(str, nodes[1:-1]))
        lines.append(f"{name}{found['flow'][flow] + 1}: {path}→DLID({lid[nodes[-1]]})")
    return lines


@pytest.mark.parametrize(
    "spec",
    ["xgft:2;4,4;1,2;1,2", "xgft:3;3,3,3;1,3,3", "leaf-spine:leaves=4,spines=3,hosts=2"],
)
@pytest.mark.parametrize("lids", [False, True])
def test_page_has_the_path_of_each_flow(spec: str, lids: bool) -> None:
    fabric = weft.fabric(spec)
    if lids:
        fabric = replace(fabric, lid=np.arange(len(fabric.lid), dtype=np.int32) + 100)
    order = np.random.default_rng(0).permutation(fabric.num_hosts)
    made = [
        weft.keys(fabric, range(fabric.num_hosts), order, name="A"),
        weft.keys(fabric, order[:4], order[4:8], name="B"),
    ]
    document = Document(render_keys(fabric, made))
    for number, key in enumerate(made):
        apart = key.sources != key.destinations
        expected = [line for line, moves in zip(key.lines(), apart, strict=True) if moves]
        assert lines_of_page(fabric, document, number) == expected


def test_repeated_flows_are_drawn_once_and_flows_within_a_host_not_at_all() -> None:
    key = weft.keys(TREE, [0, 1, 0, 3], [4, 8, 4, 3])
    text = render_keys(TREE, [key])
    assert lines_of_page(TREE, Document(text), 0) == key.lines()[:2]
    assert render_keys(TREE, [weft.keys(TREE, [0, 1, 0, 3], [4, 8, 4, 3])]) == text


def test_keys_are_listed_with_their_numbers_and_names_are_escaped() -> None:
    made = [weft.keys(TREE, [0, 1, 2, 3, 4], [5, 6, 7, 8, 9], name=name) for name in HOSTILE]
    document = Document(render_keys(TREE, made))
    assert document.texts["th"][5:] == [""] * len(made)  # each holds a button
    names = [
        text
        for (_, attrs), text in zip(
            [tag for tag in document.tags if tag[0] == "button"],
            document.texts["button"],
            strict=True,
        )
        if "data-choose" in attrs
    ]
    assert names == list(HOSTILE)
    key = made[0]
    figures = [len(key.sources), key.num_colours, key.worst, key.bound]
    assert document.texts["td"][:4] == [str(value) for value in figures]
    assert len({tag for tag, _ in document.tags} & {"img", "svg", "link"}) == 0


def test_a_page_draws_and_lists_a_limited_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [weft.keys(TREE, [0, 1], [4, 8], name=f"K{number}") for number in range(5)]
    assert "drawn" not in Document(render_keys(TREE, made)).texts.get("li", [])
    monkeypatch.setattr(key_page, "MOST_LINKS", 9)  # each key has eight
    monkeypatch.setattr(key_page, "MOST_KEYS", 4)
    document = Document(render_keys(TREE, made))
    assert len(json.loads(document.script("weft-page"))["keys"]) == 2
    assert document.texts["li"] == [
        "The paths of the first 2 of 5 keys are drawn.",
        "The first 4 keys are listed.",
    ]
    assert document.texts["th"][5:] == ["", "", "K2", "K3"]


def test_a_key_of_another_fabric_is_refused(tmp_path: Path) -> None:
    made = weft.keys(TREE, [0], [4])
    weft.write_key_page(TREE, [made], tmp_path / "a.html")
    with pytest.raises(InputError, match="key A is for another fabric than xgft:2;4,4;1,3"):
        weft.write_key_page(weft.fabric("xgft:2;4,4;1,3"), [made], tmp_path / "b.html")
    assert [each.name for each in tmp_path.iterdir()] == ["a.html"]


def test_a_page_of_many_flows_stays_small() -> None:
    fabric = weft.fabric("xgft:3;10,10,10;1,10,10")
    order = np.random.default_rng(0).permutation(fabric.num_hosts)
    key = weft.keys(fabric, range(fabric.num_hosts), order)
    one, two = (len(render_keys(fabric, [key] * count)) for count in (1, 2))
    assert two - one < 20_000
    assert one < 150_000


def test_page_of_a_simulation_lists_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    work, routes = load_workload("cartesian:keys=true", 16), weft.route(TREE, "dmodk")
    pages = []
    for policy in ("deterministic", "nrk"):
        run = weft.simulate(
            TREE, routes, work, "random:seed=1", level="packet", policy=policy, snapshot_ns=1000
        )
        pages.append(Document(render_simulation(run)))
    assert run.keys is not None
    assert len(run.keys) == 6
    assert ["Routing keys" in page.texts["h2"] for page in pages] == [False, True]
    figures = [str(value) for row in run.keys.table().rows() for value in row[1:]]
    cells = pages[1].texts["td"]
    assert any(cells[at : at + len(figures)] == figures for at in range(len(cells)))
    assert pages[1].texts["th"][-6:] == [key.name for key in run.keys]
    monkeypatch.setattr(simulation_page, "PHASES", 2)
    notes = Document(render_simulation(run)).texts["li"]
    assert "The first 2 of 6 routing keys are listed." in notes
