import base64
import hashlib
import json
import re
import struct
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from tests.random_fabrics import random_fabric
from tests.report_pages import comparison_page, run_of

from weft.core.errors import InputError
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build
from weft.report.comparison_data import LISTED_USERS, EngineVerdict, LinkUsers
from weft.report.comparison_page import render, write_comparison_page
from weft.report.packing import coded, packed, script_json
from weft.report.summary import (
    CURVE_POINTS,
    busiest_links,
    curve,
    default_run,
    scope_of,
    statistics,
    user_line,
)
from weft.routing import route

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "\"'><svg onload=alert(3)>",
    "&lt;b&gt; &amp; {{ 7*7 }} {% raw %}",
    "ünïcødé 節点 \u202e\u2028\u2029 \x7f",
    "]]><!-- <!DOCTYPE",
    "${alert(4)} `\\u003cb\\u003e`",
)


class Document(HTMLParser):
    """Elements, attributes and text of a page, as a browser parses them."""

    VOID = frozenset({"meta", "input", "link", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.setdefault(tag, []).append("")
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open:
            self.texts[self._open[-1]][-1] += data

    def script(self, identity: str) -> str:
        scripts = [attrs for tag, attrs in self.tags if tag == "script"]
        place = [attrs.get("id") for attrs in scripts].index(identity)
        return self.texts["script"][place]


def unpacked(text: str) -> dict:
    raw = zlib.decompress(base64.b64decode(text))
    (length,) = struct.unpack_from("<I", raw)
    head = json.loads(raw[4 : 4 + length])
    values = dict(head["values"])
    for name, kind, offset, count in head["arrays"]:
        assert offset % 8 == 0
        values[name] = np.frombuffer(raw, dtype="<" + kind, count=count, offset=offset)
    return values


def with_hostile_names(fabric: Fabric) -> Fabric:
    return fabric.renamed(
        {int(guid): name for guid, name in zip(fabric.node_guid, HOSTILE, strict=False)},
    )


@pytest.fixture(scope="module")
def tree_page():
    return comparison_page(build("xgft:2;4,4;1,2;1,2").degraded([0], "4xSDR"))


@pytest.fixture(scope="module")
def tree_text(tree_page):
    return render(tree_page)


def test_equal_pages_give_equal_text(tree_page, tree_text):
    assert render(tree_page) == tree_text
    again = comparison_page(build("xgft:2;4,4;1,2;1,2").degraded([0], "4xSDR"))
    assert render(again) == tree_text


def test_page_makes_no_network_requests(tree_text):
    document = Document(tree_text)
    for tag, attrs in document.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert "src" not in attrs
        assert "style" not in attrs  # the policy forbids style attributes
        assert not any(name.startswith("on") for name in attrs)
        assert attrs.get("href", "#").startswith("#")
    addresses = set(re.findall(r"[a-z]+://[^\s\"'`)]+", tree_text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a namespace, which is never fetched
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(", tree_text)
    assert "@import" not in tree_text
    assert "url(" not in tree_text


def test_policy_allows_the_pages_own_script_and_style_only(tree_text):
    document = Document(tree_text)
    policy = next(
        attrs["content"]
        for tag, attrs in document.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    executed = document.texts["script"][-1]
    for rule, text in (("script-src", executed), ("style-src", document.texts["style"][0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_tables_are_there_without_scripts(tree_page, tree_text):
    document = Document(tree_text)
    visible = " ".join(text for tag in ("td", "th", "span") for text in document.texts[tag])
    run = default_run(tree_page)
    assert run is tree_page.runs[0]
    scope = scope_of(tree_page.fabric)
    links = busiest_links(run.load, scope.links)
    assert len(links) == 20
    for link in links:
        assert tree_page.fabric.link_name(link) in visible
    for verdict in tree_page.engines:
        for value in verdict.cells.values():
            assert value in visible


def test_an_engine_that_refused_is_listed_with_its_reason():
    page = comparison_page(build("torus:4x4"), ("minhop", "dmodk"))
    refused = next(verdict for verdict in page.engines if verdict.refusal)
    text = render(page)
    assert refused.name == "dmodk"
    assert any(refused.refusal in cell for cell in Document(text).texts["td"])
    data = json.loads(Document(text).script("weft-page"))
    assert {"name": "dmodk", "ran": False, "refused": True} in data["engines"]


def test_a_pattern_that_does_not_fit_is_listed_with_its_reason(tree_text):
    data = json.loads(Document(tree_text).script("weft-page"))
    assert data["patterns"][-1] == {
        "name": "bit-reversal",
        "text": "needs a power of two of hosts",
        "ran": False,
    }


def test_loads_and_users_survive_packing(tree_page, tree_text):
    document = Document(tree_text)
    for index, run in enumerate(tree_page.runs):
        values = unpacked(document.script(f"weft-run-{index}"))
        load = values["loadTable"][values["loadIndex"]]
        assert np.array_equal(load, run.load)
        flows = load if values["sameAsLoad"] else values["flowsTable"][values["flowsIndex"]]
        assert np.array_equal(flows, run.flows)
        assert [entry["link"] for entry in values["users"]] == sorted(run.users)
        for entry in values["users"]:
            users = run.users[entry["link"]]
            for key, of in (("pair", users.pairs), ("source", users.sources)):
                assert [row[:-1] for row in entry[f"{key}s"]] == of.nodes.tolist()
                assert [row[-1] for row in entry[f"{key}s"]] == of.flows.tolist()
                assert entry[f"{key}Count"] == of.count
            assert sum(row[-1] for row in entry["destinations"]) == run.flows[entry["link"]]
    # The slow cable makes loads differ from numbers of flows, so that both are checked.
    assert {unpacked(document.script(f"weft-run-{i}"))["sameAsLoad"] for i in range(4)} == {False}


def test_fabric_survives_packing(tree_page, tree_text):
    fabric = tree_page.fabric
    values = unpacked(Document(tree_text).script("weft-fabric"))
    assert tuple(values["names"]) == fabric.node_names
    assert np.array_equal(values["aNode"], fabric.link_from[0::2])
    assert np.array_equal(values["bPort"], fabric.link_to_port[0::2])
    guid = values["guidHigh"].astype(np.uint64) << np.uint64(32) | values["guidLow"]
    assert np.array_equal(guid, fabric.node_guid)
    rates = [values["rates"][index] for index in values["rateIndex"]]
    assert rates[0] == "4xSDR (8 Gb/s)"
    assert set(rates[1:]) == {"4xHDR (200 Gb/s)"}


#: Elements that only a page with more engines or notes may have.
TABLES_AND_LISTS = {"td", "th", "tr", "small", "ul", "li", "details", "summary"}


def test_hostile_names_stay_text():
    fabric = with_hostile_names(build("xgft:2;2,2;1,2"))
    page = comparison_page(fabric, title=HOSTILE[0])
    page = replace(
        page,
        engines=(
            *page.engines,
            EngineVerdict(HOSTILE[1], HOSTILE[2], refusal=HOSTILE[0], findings=(HOSTILE[0],)),
        ),
        patterns={**page.patterns, HOSTILE[3]: HOSTILE[0]},
        notes=HOSTILE,
        facts=((HOSTILE[0], HOSTILE[1]),),
        columns={**page.columns, HOSTILE[2]: HOSTILE[0]},
    )
    document = Document(render(page))
    plain = Document(render(comparison_page(build("xgft:2;2,2;1,2"))))
    kinds = [
        {tag for tag, _ in each.tags if tag not in TABLES_AND_LISTS} for each in (document, plain)
    ]
    assert kinds[0] == kinds[1]
    count = [sum(tag == "script" for tag, _ in each.tags) for each in (document, plain)]
    assert count[0] == count[1]
    assert document.texts["title"] == [HOSTILE[0]]
    assert document.texts["h1"] == [HOSTILE[0]]
    assert HOSTILE[3] in json.loads(document.script("weft-page"))["patterns"][-1]["name"]
    names = unpacked(document.script("weft-fabric"))["names"]
    assert tuple(names[: len(HOSTILE)]) == HOSTILE
    # Half a surrogate pair, which a file name can contain, must not be an error.
    assert "?" in render(replace(page, title="half \ud800"))


def test_the_page_of_a_real_cluster_is_small(shared):
    from tests.reading import reader_of

    read = reader_of("ibnetdiscover")

    path = shared / "fabrics" / "psmn-x5.ibnetdiscover"
    fabric = read(path.read_text(), str(path))
    text = render(comparison_page(fabric, ("minhop", "updn", "ecmp"), listed=40))
    assert len(text.encode()) < 400_000


def test_the_page_of_a_large_fabric_stays_within_bounds():
    fabric = build("xgft:3;12,12,12;1,12,12")
    page = comparison_page(fabric, ("dmodk", "minhop"), ("shift", "incast"), listed=24)
    assert len(render(page).encode()) < 1_000_000


def test_the_page_says_that_hosts_are_too_many_to_draw(monkeypatch):
    monkeypatch.setattr("weft.report.parts.MAX_DRAWN_HOSTS", 15)
    page = comparison_page(build("xgft:2;4,4;1,2"), ("minhop",), ("shift",))
    assert json.loads(Document(render(page)).script("weft-page"))["hostsDrawn"] is False


@pytest.mark.parametrize("seed", range(6))
def test_any_fabric_has_a_page(seed):
    fabric = random_fabric(seed)
    page = comparison_page(fabric, ("minhop", "updn", "ecmp"), ("all-to-all",))
    Document(render(page))


def test_page_without_any_run():
    builder = FabricBuilder("pair")
    pair = builder.hosts(["h0", "h1"])
    builder.connect(pair[:1], pair[1:])
    page = comparison_page(builder.fabric(), ("minhop",), ("shift",))
    assert not page.runs
    document = Document(render(page))
    assert json.loads(document.script("weft-page"))["defaultRun"] == -1
    assert "No engine ran." in document.texts["td"]


@pytest.mark.parametrize("bad", [np.zeros(3), np.full(64, np.nan), np.full(64, -1.0)])
def test_a_run_with_bad_loads_is_refused(tree_page, bad):
    run = replace(tree_page.runs[0], load=bad)
    with pytest.raises(ValueError, match="load of minhop must"):
        render(replace(tree_page, runs=(run,)))


def test_write_replaces_a_file_or_changes_nothing(tree_page, tree_text, tmp_path):
    target = tmp_path / "report.html"
    target.write_text("before")
    write_comparison_page(tree_page, target)
    assert target.read_text(encoding="utf-8") == tree_text
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(InputError):
        write_comparison_page(tree_page, tmp_path / "missing" / "report.html")
    with pytest.raises(InputError):
        write_comparison_page(tree_page, tmp_path)


def test_scope_is_links_between_switches_or_all():
    fabric = build("xgft:2;4,4;1,2")
    scope = scope_of(fabric)
    assert not scope.all_links
    assert np.array_equal(scope.links, np.flatnonzero(fabric.link_kind == 0))
    scope = scope_of(build("bcube:n=3,k=1"))
    assert scope.all_links
    assert len(scope.links) == build("bcube:n=3,k=1").num_links


def test_statistics_are_those_of_the_scope():
    fabric = build("xgft:2;4,4;1,2")
    run = run_of(fabric, route(fabric, "minhop"), "incast")
    between = fabric.link_kind == 0
    figures = statistics(run.load[between])
    assert figures["links"] == between.sum()
    assert figures["max"] == run.load[between].max()
    assert figures["max"] < run.load.max()  # the host's own cable is hotter, but outside the scope


def test_curve_is_the_empirical_distribution():
    random = np.random.default_rng(3)
    load = np.floor(random.random(500) * 20)
    x, y = curve(load)
    assert x == sorted(set(load.tolist()))
    assert y == [pytest.approx(np.mean(load <= value)) for value in x]
    many = random.random(5000)
    x, y = curve(many)
    assert len(x) <= CURVE_POINTS + 1
    assert (x[-1], y[-1]) == (pytest.approx(many.max()), 1.0)
    for value, share in zip(x, y, strict=True):
        assert share == pytest.approx(np.mean(many <= value * (1 + 1e-9)), abs=1e-6)
    assert np.max(np.diff([0.0, *y])) < 3 / CURVE_POINTS
    assert curve(np.zeros(0)) == ([], [])


def test_the_busiest_links_omit_idle_links_and_ties_go_by_number():
    load = np.array([0.0, 3.0, 5.0, 3.0, 9.0])
    assert busiest_links(load, np.array([0, 1, 2, 3])) == [2, 1, 3]
    assert busiest_links(load, np.array([0, 1, 2, 3]), 2) == [2, 1]


def test_users_beyond_the_list_are_counted_not_named():
    fabric = build("xgft:2;4,4;1,2")
    page = comparison_page(fabric, ("minhop",), ("shift",))
    run = page.runs[0]
    link = next(iter(run.users))
    many = np.arange(LISTED_USERS + 7)
    # Each pair occurs twice, as flows may come in any order.
    users = LinkUsers.of(np.tile(many, 2), np.tile(many % 3, 2), np.ones(2 * len(many), int))
    crowded = replace(page, runs=(replace(run, users={link: users}),))
    (entry,) = unpacked(Document(render(crowded)).script("weft-run-0"))["users"]
    assert len(entry["pairs"]) == LISTED_USERS
    assert entry["pairs"][0] == [0, 0, 2]
    assert entry["pairCount"] == LISTED_USERS + 7
    assert entry["destinationCount"] == 3
    assert sum(flows for _, flows in entry["destinations"]) == 2 * len(many)


def test_user_lines_name_hosts_or_all_hosts_of_a_switch():
    fabric = build("xgft:2;4,4;1,2")

    def line(*pairs: tuple[str, str]) -> str:
        ends = [[fabric.find_node(name) for name in end] for end in zip(*pairs, strict=True)]
        return user_line(fabric, LinkUsers.of(*map(np.array, ends), np.ones(len(pairs), int)))

    assert line(("h3", "h4")) == "h3 → h4"
    assert line(("s1-0", "h4"), ("s1-1", "h4")) == "hosts of s1-0 → h4 and 1 more pair"
    assert line(("h3", "h4"), ("h4", "h5"), ("h5", "h6")) == "h3 → h4 and 2 more pairs"
    assert user_line(fabric, None) == ""


def test_packing_keeps_values_and_types():
    random = np.random.default_rng(0)
    arrays = {
        "f8": random.random(3),
        "f4": random.random(5).astype(np.float32),
        "u2": np.arange(7, dtype=np.uint16),
        "i1": np.array([-1, 3], dtype=np.int8),
        "none": np.zeros(0, dtype=np.int32),
    }
    values_back = unpacked(packed(arrays, {"text": "ä\u2028", "list": [1, None]}))
    for name, array in arrays.items():
        assert values_back[name].dtype == array.dtype
        assert np.array_equal(values_back[name], array)
    assert values_back["text"] == "ä\u2028"


@pytest.mark.parametrize(("distinct", "kind"), [(5, np.uint8), (300, np.uint16)])
def test_few_values_become_a_table(distinct, kind):
    values = np.tile(np.arange(distinct) / 3, 4)
    columns = coded("load", values)
    assert columns["loadIndex"].dtype == kind
    assert np.array_equal(columns["loadTable"][columns["loadIndex"]], values)


def test_whole_numbers_are_packed_as_other_numbers():
    flows = np.array([3, 0, 3], dtype=np.int64)
    assert unpacked(packed(coded("flows", flows), {}))["flowsTable"].tolist() == [0.0, 3.0]


def test_many_values_stay_an_array():
    values = np.random.default_rng(1).random(2**16 + 1)
    columns = coded("load", values)
    assert list(columns) == ["load"]
    assert np.allclose(columns["load"], values, rtol=1e-6)


def test_script_json_opens_no_tag():
    text = script_json({"a": "".join(HOSTILE)})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": "".join(HOSTILE)}
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))
