"""Specs and topologies with random parameters and random text."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from weft.core.errors import InputError
from weft.core.words import quoted, unquoted
from weft.fabrics import Fabric, FabricBuilder
from weft.fabrics.topology import build, format_spec, topology
from weft.fabrics.topology.measures import bisection_upper_bound, diameter, distance_counts
from weft.routing import route
from weft.workload.placement import place

small = st.integers(1, 4)
EXAMPLES = [spec for entry in topology for spec in entry.facts["examples"]]
#: Random specs with more hosts, switches or cables than this are not built.
MOST = 400


@st.composite
def trees(draw: st.DrawFn) -> str:
    h = draw(st.integers(1, 3))
    lists = [draw(st.lists(st.integers(1, 3), min_size=h, max_size=h)) for _ in range(3)]
    m, w, p = (",".join(map(str, values)) for values in lists)
    return f"xgft:{h};{m};{w};{p}"


@st.composite
def grids(draw: st.DrawFn) -> str:
    family = draw(st.sampled_from(["torus", "mesh"]))
    dims = "x".join(map(str, draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))))
    return f"{family}:{dims},hosts={draw(small)},cables={draw(small)}"


@st.composite
def hyperxes(draw: st.DrawFn) -> str:
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    each = draw(st.lists(small, min_size=len(sizes), max_size=len(sizes)) | st.lists(
        small, min_size=1, max_size=1))  # fmt: skip
    return f"hyperx:{'x'.join(map(str, sizes))};{','.join(map(str, each))};{draw(small)}"


def keyed(family: str, **ranges: st.SearchStrategy) -> st.SearchStrategy[str]:
    """Return specs of a family with each key drawn from its strategy; None leaves a key out."""
    return st.fixed_dictionaries(ranges).map(
        lambda values: (
            f"{family}:"
            + ",".join(f"{key}={value}" for key, value in values.items() if value is not None)
        )
    )


number = st.integers(1, 9)
maybe = st.none() | number
arrangement = st.sampled_from(["absolute", "palmtree"])
specs = st.one_of(
    trees(),
    grids(),
    hyperxes(),
    keyed("kary-n-tree", k=number, n=small, hosts=maybe, cables=small),
    keyed("fat-tree", k=number, hosts=maybe, cables=small),
    keyed("leaf-spine", leaves=number, spines=number, hosts=number, cables=small),
    keyed("slimmed-fat-tree", k=small, up=small, n=small, hosts=maybe, cables=small),
    keyed(
        "kns",
        k=st.integers(2, 12),
        n=st.integers(1, 3),
        s=st.none() | st.integers(1, 4),
        d=st.none() | st.integers(2, 8),
        hosts=st.integers(1, 2),
        cables=st.integers(1, 2),
        router=st.sampled_from(["switch", "adapter"]),
    ),
    keyed("bcube", n=number, k=st.integers(0, 3)),
    keyed("ring", n=number, hosts=small, cables=small),
    keyed("hypercube", n=st.integers(1, 6), hosts=small, cables=small),
    keyed("flattened-butterfly", k=small, n=small, hosts=maybe, cables=small),
    keyed("multi-ring", n=st.integers(2, 40), ratio=small, rings=small, hosts=small, cables=small),
    keyed(
        "rdt", size=st.integers(3, 24), n=st.integers(2, 3), R=st.integers(1, 2), m=small,
        hosts=st.just(1), cables=small,
    ),
    keyed("dragonfly", p=small, a=number, h=small, g=maybe, arrangement=arrangement, cables=small),
    keyed(
        "megafly", p=small, leaves=small, spines=small, h=small, g=maybe, arrangement=arrangement,
        cables=small,
    ),
    keyed("slim-fly", q=number, hosts=maybe, cables=small),
    keyed(
        "jellyfish", switches=st.integers(1, 30), degree=st.integers(0, 12), hosts=small,
        seed=st.integers(0, 10**9),
    ),
)  # fmt: skip


def within_reach(spec: str) -> Fabric | None:
    """Return the fabric of a spec; None if it is rejected, or too large for this test."""
    try:
        entry, arguments = topology.parse(spec)
        form = entry.facts["closed_form"](**topology.bind(entry, arguments))
        large = max(form.hosts, form.switches, form.cables) > MOST
        fabric, reason = None if large else build(spec), ""
    except InputError as error:
        fabric, reason = None, str(error)
    assert "\n" not in reason
    return fabric


@settings(max_examples=examples(150))
@given(spec=specs)
def test_random_parameters_match_the_literature_or_give_an_error(spec):
    fabric = within_reach(spec)
    assume(fabric is not None)
    form = topology[fabric.family].facts["closed_form"](**fabric.parameters)
    assert (fabric.num_hosts, fabric.num_switches, fabric.num_cables) == (
        form.hosts,
        form.switches,
        form.cables,
    )
    used = np.bincount(fabric.link_from, minlength=fabric.num_nodes)
    assert (used <= fabric.num_ports).all()
    assert fabric.num_ports[: fabric.num_switches].max() == form.radix

    graph = nx.Graph(zip(fabric.link_from.tolist(), fabric.link_to.tolist(), strict=True))
    assert graph.number_of_nodes() == fabric.num_nodes
    assert nx.is_connected(graph)
    assert distance_counts(fabric).sum() == fabric.num_hosts * (fabric.num_hosts - 1)
    assert form.diameter in (None, diameter(fabric))
    bound = bisection_upper_bound(fabric)
    assert 0 < bound <= np.sort(used[fabric.host_nodes])[: fabric.num_hosts // 2].sum()
    if form.bisection_cables is not None:
        assert form.bisection_cables <= bound

    text = format_spec(fabric.family, fabric.parameters)
    again = build(text)
    assert again.digest == fabric.digest
    assert again.parameters == fabric.parameters
    assert format_spec(again.family, again.parameters) == text


@settings(max_examples=examples(400))
@given(
    spec=st.sampled_from(EXAMPLES),
    cut=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    text=st.text("0123456789,;:=x-kndhpamgw. é\n", max_size=6),
)
def test_mutated_specs_give_a_fabric_or_one_clear_error(spec, cut, text):
    start, stop = sorted(cut)
    mutant = spec[:start] + text + spec[stop:]
    fabric = within_reach(mutant)
    if fabric is not None:
        assert fabric.num_hosts >= 2


#: Labels with all separators of options, host lists and files.
labels = st.text("n1,;:=\"[]#@/ é'x-", min_size=1, max_size=8) | st.text(min_size=1, max_size=8)


@settings(max_examples=examples(200))
@given(names=st.lists(labels, min_size=4, max_size=4, unique=True))
def test_any_name_can_be_typed_where_a_node_is_expected(names):
    build_one = FabricBuilder("any names")
    switches, hosts = build_one.switches(names[:2]), build_one.hosts(names[2:])
    build_one.connect(switches[:1], switches[1:])
    build_one.connect(switches, hosts)
    fabric = build_one.fabric()
    one, two, three, four = map(fabric.option_name, range(4))
    assert [fabric.find_node(name) for name in (one, two, three, four)] == [0, 1, 2, 3]
    assert fabric.find_cable(f"{two}[1]") == 0
    routes = route(fabric, f"updn:roots={two},{one};passes=1")
    assert routes.notes == (f"2 roots: {names[0]}, {names[1]}",)
    assert place(fabric, 2, f"hosts:{four},{three}").tolist() == [1, 0]
    assert place(fabric, 2, f"hosts:list={four},{three}").tolist() == [1, 0]
    assert place(fabric, 2, hosts=f"{four},{three}").tolist() == [1, 0]
    assert route(fabric, "updn", roots=f"{two},{one}").notes == routes.notes
    assert unquoted(quoted(names[0])) == names[0]


@settings(max_examples=examples(300))
@given(text=st.text(max_size=30))
def test_any_text_is_a_spec_or_refused(text):
    within_reach(text)
