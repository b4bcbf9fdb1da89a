"""Tables in HTML that notebooks show, with names of any characters."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import weft


def cells(shown: object) -> list[str]:
    """Return the texts of the cells of a table, which must be well-formed."""
    page = shown._repr_html_()  # type: ignore[attr-defined]
    return list(ET.fromstring(page).itertext())


def test_fabrics_routes_verdicts_and_comparisons_are_tables() -> None:
    tree = weft.fabric("xgft:2;4,4;1,4")
    routes = weft.route(tree, ["hdor", "minhop"])
    assert cells(tree) == [
        "xgft:2;4,4;1,4", "hosts", "16", "switches", "8", "cables", "32", "rates, Gb/s", "200",
    ]  # fmt: skip
    assert cells(routes)[:1] == ["TableRoutes by minhop"]
    assert any(text.startswith("hdor: ") for text in cells(routes))
    verdict = cells(weft.validate(tree, routes))
    assert verdict[verdict.index("valid") + 1] == "yes"
    result = weft.compare(tree, ("dmodk", "updn"), ("shift",), samples=2)
    shown = cells(result)
    assert {"engine", "ebb", "dmodk", "updn"} <= set(shown)
    assert shown[0].startswith("Engines on xgft:2;4,4;1,4; best: ")
    assert repr(result) == "Comparison('xgft:2;4,4;1,4': 2 engines, best: updn)"
    assert str(result).startswith("Best engine: updn. ")
    assert cells(weft.bisection(tree, routes, samples=2))[0] == "Bisection bandwidth"
    key = cells(weft.keys(tree, [0, 1], [4, 8]))
    assert key[0] == "Routing key A on xgft:2;4,4;1,4"
    assert key[key.index("most flows on a link") + 1] == "1"
    flows = weft.analyse(tree, routes, [0, 1], [5, 6])
    assert "unrouted" in cells(flows)


def test_names_are_escaped() -> None:
    builder = weft.FabricBuilder("<b>&")
    (switch,) = builder.switches(["s"])
    builder.connect([switch, switch], builder.hosts(["a", "b"]))
    assert cells(builder.fabric())[0] == "<b>&"
