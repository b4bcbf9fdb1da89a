"""Every format survives a round trip, and readers fail only with an `InputError`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.diags_files import iblinkinfo, node_list, ports_report, saquery, subnet_list
from tests.examples import examples
from tests.ibdiagnet2_files import db_csv, net_dump, net_dump_ext, with_lids
from tests.reading import reader_of

from weft.core.errors import InputError, NotApplicable
from weft.core.units import RATE_NAMES, rate_gbps
from weft.fabrics import Fabric, NodeKind, Parts
from weft.fabrics.formats import FormatWarning, reader, writer
from weft.fabrics.formats.graphml import write as write_graphml
from weft.fabrics.formats.graphviz import write as write_dot
from weft.fabrics.formats.hostlist import compress, expand
from weft.fabrics.formats.ibnetdiscover import write as write_ibnetdiscover
from weft.fabrics.formats.ibsim import write as write_ibsim
from weft.fabrics.formats.lldp import Neighbours, joined
from weft.fabrics.formats.merge import merged
from weft.fabrics.formats.netlist import Netlist
from weft.fabrics.formats.node_name_map import parse_names, with_names
from weft.fabrics.formats.node_name_map import write as write_names
from weft.fabrics.formats.session import without_session
from weft.fabrics.formats.slurm import parse_topologies, write_yaml
from weft.fabrics.formats.slurm import write as write_slurm
from weft.fabrics.formats.slurm_check import check_topologies
from weft.fabrics.parts import cable_latency_ns
from weft.fabrics.topology import build

read_ibsim = reader_of("ibsim")

read_ibnetdiscover = reader_of("ibnetdiscover")

WORDS = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=20
).filter(lambda text: text == text.strip() and len(text.encode()) <= 64)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    """Draw a small multigraph with all kinds of nodes and random attributes."""
    switches = draw(st.integers(0, 4))
    hosts = draw(st.integers(0 if switches else 1, 6))
    others = draw(st.integers(0, 2))
    kind = np.repeat(
        [NodeKind.SWITCH, NodeKind.HOST, NodeKind.AUXILIARY], [switches, hosts, others]
    )
    count = len(kind)
    names = draw(st.lists(WORDS, min_size=count, max_size=count, unique=True))
    descriptions = [
        draw(st.one_of(st.just(name), st.just(""), WORDS, st.just(f"{name} HCA-1"[:30])))
        for name in names
    ]
    descriptions = ["x" if text.endswith("Aggregation Node") else text for text in descriptions]
    if others:
        descriptions[-1] = draw(st.sampled_from(["Mellanox Technologies Aggregation Node", "rt"]))
    ports = draw(st.lists(st.integers(1, 6), min_size=count, max_size=count))
    sockets = [(node, port + 1) for node in range(count) for port in range(ports[node])]
    order = draw(st.permutations(sockets))
    cables = draw(st.integers(0, len(order) // 2))
    a, b = order[0 : 2 * cables : 2], order[1 : 2 * cables : 2]
    rates = draw(st.lists(st.integers(1, len(RATE_NAMES) - 1), min_size=cables, max_size=cables))
    guids = draw(
        st.lists(st.integers(1, 2**60 - 1), min_size=count, max_size=count, unique=True).map(
            lambda values: [16 * value for value in values]
        )
    )
    cabled = {*a, *b}
    odd = {
        (node, port): guids[node] + 8 + port
        for node, port in sorted(cabled)
        if kind[node] != NodeKind.SWITCH and draw(st.booleans())
    }
    for node in range(switches):
        if draw(st.booleans()):
            odd.update({(node, port): guids[node] + 9 for port in range(1, ports[node] + 1)})
    ends = sorted((0 if kind[n] == NodeKind.SWITCH else p, n) for n, p in cabled)
    owners = {(node, port) for port, node in ends} | {(node, 0) for node in range(switches)}
    lids = {}
    lid = draw(st.integers(1, 100))
    for owner in sorted(owners):
        lmc = draw(st.integers(0, 7))
        if draw(st.booleans()):
            lids[owner] = (lid, lmc)
        lid += (1 << lmc) + draw(st.integers(0, 50))
    length = np.full(cables, np.nan)

    def numbers(most: int) -> list[int]:
        return draw(st.lists(st.integers(0, most), min_size=count, max_size=count))

    return Fabric.of(
        Parts(
            name="random",
            kind=kind.astype(np.uint8),
            names=names,
            ports=np.array(ports, dtype=np.int32),
            a_node=np.array([node for node, _ in a], dtype=np.int32),
            a_port=np.array([port for _, port in a], dtype=np.int32),
            b_node=np.array([node for node, _ in b], dtype=np.int32),
            b_port=np.array([port for _, port in b], dtype=np.int32),
            rate_gbps=np.array([rate_gbps(code) for code in rates], dtype=np.float64),
            rate_code=np.array(rates, dtype=np.uint8),
            length_m=length,
            latency_ns=cable_latency_ns(length),
            guid=np.array(guids, dtype=np.uint64),
            forwards=kind == NodeKind.SWITCH,
            level=np.full(count, -1, dtype=np.int8),
            coordinates=np.zeros((count, 0), dtype=np.int32),
            descriptions=descriptions,
            system_guid=np.array(numbers(2**64 - 1), dtype=np.uint64),
            vendor_id=np.array(numbers(0xFFFFFF), dtype=np.uint32),
            device_id=np.array(numbers(0xFFFF), dtype=np.uint32),
            port_guid=odd,
            lid=lids,
        )
    )


def same(one: Fabric, other: Fabric) -> None:
    assert one.digest == other.digest
    assert one.descriptions == other.descriptions
    for key in (
        "node_guid",
        "port_guid",
        "system_guid",
        "vendor_id",
        "device_id",
        "lid",
        "lmc",
        "cable_rate_code",
        "cable_rate_gbps",
    ):
        assert np.array_equal(getattr(one, key), getattr(other, key)), key


@given(fabrics())
def test_ibnetdiscover_round_trip(fabric: Fabric) -> None:
    again = read_ibnetdiscover(write_ibnetdiscover(fabric), "f")
    same(again, fabric)
    # The reader derives labels from the descriptions; further round trips keep the labels.
    assert read_ibnetdiscover(write_ibnetdiscover(again), "f").node_names == again.node_names


@given(fabrics())
def test_ibsim_round_trip(fabric: Fabric) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        text = write_ibsim(fabric)
    again = read_ibsim(text, "f")
    same(again, fabric)
    for kind, label, name in zip(
        fabric.node_kind, fabric.node_names, again.node_names, strict=True
    ):
        longest = 31 if kind == NodeKind.HOST else 64
        if not set(label) & set('#@"') and len(label.encode()) <= longest:
            assert label == name


def by_port_guid(fabric: Fabric) -> dict[frozenset[tuple[int, int]], float]:
    """Return rates by the ends of cables, port GUID (of switches, node GUID) and port."""
    node, port = fabric.link_from, fabric.link_from_port
    guid = np.where(
        fabric.node_kind[node] == NodeKind.SWITCH,
        fabric.node_guid[node],
        fabric.port_guid[fabric.port_offset[node] + port - 1],
    )
    ends = list(zip(guid.tolist(), port.tolist(), strict=True))
    cables = [frozenset(ends[at : at + 2]) for at in range(0, len(ends), 2)]
    return dict(zip(cables, fabric.cable_rate_code.tolist(), strict=True))


@given(fabrics().filter(lambda fabric: fabric.num_cables > 0))
def test_what_programs_list_by_port_has_all_cables(fabric: Fabric) -> None:
    parts = Parts.of(fabric)
    ends = zip(fabric.endpoint_node.tolist(), fabric.endpoint_port.tolist(), strict=True)
    owners = [*ends, *((switch, 0) for switch in range(fabric.num_switches))]
    parts.lid = {owner: (lid, 0) for lid, owner in enumerate(owners, 1)}
    managed = Fabric.of(parts)
    for name, text in (
        ("ibnetdiscover-p", ports_report(managed)),
        ("iblinkinfo", iblinkinfo(managed)),
        ("iblinkinfo", iblinkinfo(managed, by_line=True)),
        ("saquery", saquery(managed)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            found = outcome(reader[name].function, text)
        assert isinstance(found, Fabric), f"{name}: {found}"
        assert by_port_guid(found) == by_port_guid(managed)


@given(fabrics())
def test_written_files_are_recognised(fabric: Fabric) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        for name in set(reader.names()) & set(writer.names()):
            text = writer[name].function(fabric)
            assert [entry.name for entry in reader if entry.facts["sniff"](text)] == [name]


@given(fabrics())
def test_node_name_map_round_trip(fabric: Fabric) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        try:
            text = write_names(fabric)
        except NotApplicable:
            assert any('"' in label for label in fabric.node_names)
            return
    again = read_ibnetdiscover(write_ibnetdiscover(fabric), "f")
    assert with_names(again, parse_names(text, "m"), "m").node_names == fabric.node_names


@given(fabrics())
def test_graph_formats_take_any_fabric(fabric: Fabric) -> None:
    graph = nx.parse_graphml(write_graphml(fabric), force_multigraph=True)
    assert set(graph) == set(fabric.node_names)
    assert graph.number_of_edges() == fabric.num_cables
    assert write_dot(fabric).count(" [label=") >= fabric.num_nodes


@given(fabrics())
def test_slurm_lists_each_switched_host_once(fabric: Fabric) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        try:
            text = write_slurm(fabric)
        except NotApplicable:
            return
    lines = [line.split("=", 2) for line in text.splitlines() if line[0] != "#"]
    nodes = [name for *_, key, value in lines if key.endswith("Nodes") for name in expand(value)]
    assert len(nodes) == len(set(nodes)) > 0
    below = [name for *_, key, value in lines if key.endswith("Switches") for name in expand(value)]
    assert len(below) == len(set(below))
    topologies = parse_topologies(text, "f")
    assert sorted(topologies[0].nodes) == sorted(nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        assert check_topologies(topologies, fabric) == []
        again = parse_topologies(write_yaml(fabric), "f")
    assert again[0].nodes == topologies[0].nodes


# -- host lists -------------------------------------------------------------------------------

HOST = st.builds(
    lambda prefix, digits, suffix: prefix + digits + suffix,
    st.sampled_from(["n", "node", "r1-", "x0y", "H-00a"]),
    st.one_of(st.integers(0, 130).map(str), st.text("019", max_size=4), st.text("09", max_size=25)),
    st.sampled_from(["", "", "", "-ib"]),
)


@given(st.lists(HOST, max_size=60))
def test_host_list_round_trip(names: list[str]) -> None:
    text = compress(names)
    assert sorted(expand(text) if text else []) == sorted(set(names))
    assert compress(expand(text) if text else []) == text


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(1, 9), st.integers(1, 4)),
        min_size=1,
        max_size=5,
    )
)
def test_ranges_with_steps_and_padding_are_expanded(
    ranges: list[tuple[int, int, int, int]],
) -> None:
    inside = ",".join(f"{low:0{width}}-{low + more}/{step}" for low, more, step, width in ranges)
    wanted = []
    for low, more, step, width in ranges:
        here = low
        while here <= low + more:
            wanted.append("n" + str(here).zfill(max(width, len(str(low)))))
            here += step
    assert expand(f"n[{inside}]") == wanted


@given(st.text("n01[],-/ ", max_size=40))
def test_host_lists_expand_or_are_refused(text: str) -> None:
    try:
        names = expand(text)
    except InputError:
        return
    assert all(names)


# -- mutations --------------------------------------------------------------------------------

RANDOM = st.randoms(use_true_random=False)
SCRAPS = [
    '[1]\t"S-0000000000200000"[1]\t\t# "x" lid 1 4xQDR',
    "switchguid=0x200000(200000)",
    "caguid=0x100000",
    'Switch\t36 "S-0000000000200000"\t\t# "x" base port 0 lid 1 lmc 0',
    'Ca\t99999 "',
    "ibwarn: [1] _do_madrpc: recv failed",
    "src/query_smp.c:1; x",
    'module="a"',
    "vendid=0xffffffffffffffff",
    "width=16",
    '0x12 "name"',
    "\u2028",
    "\x00",
    "٣",
    "4x???",
    "lid 65535",
    "lmc 9",
    "(((((((((((",
    " " * 1500,
    '"' * 200,
]


def mutated(random: Random, text: str) -> str:
    """Return a text with a few lines and characters deleted, doubled, swapped or garbled."""
    lines = text.split("\n")
    for _ in range(random.randint(1, 4)):
        if lines:
            act = random.choice(["drop", "double", "swap", "insert", "cut", "scrap", "end", "join"])
            mutate(random, lines, act)
    return "\n".join(lines)


def mutate(random: Random, lines: list[str], act: str) -> None:
    """Change one of the lines."""
    at = random.randrange(len(lines))
    line = lines[at]
    offset = random.randint(0, len(line))
    if act == "drop":
        del lines[at]
    elif act == "double":
        lines.insert(random.randint(0, len(lines)), line)
    elif act == "swap":
        other = random.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif act == "insert":
        lines.insert(at, random.choice(SCRAPS))
    elif act == "cut":
        lines[at] = line[:offset] + line[offset + random.randint(1, 4) :]
    elif act == "scrap":
        scrap = random.choice([*SCRAPS, *(chr(random.randrange(0x20, 0x500)) for _ in SCRAPS)])
        lines[at] = line[:offset] + scrap + line[offset + random.randint(0, 2) :]
    elif act == "join":
        lines[at : at + 2] = ["".join(lines[at : at + 2])]
    elif act == "break":
        lines[at : at + 1] = [line[:offset], line[offset:]]
    else:
        lines[at:] = [line[:offset]]


#: A topology file of ibdm, and what lldpctl and SONiC print.
OTHERS = [
    "# two\nMTS400 S1\n   P1 -4x-10G-> Cougar h1 P1\n   P2 -> MTS400 S2 P2\n\nMTS400 S2\n",
    "Cougar\th1\tP1\tMTS800\tS1\tP1\nCougar\th2\tP1\tMTS800\tS1\tP2\n",
    """{"lldp": {"interface": [
  {"swp1": {"chassis": {"h1": {"id": {"type": "mac", "value": "02:00"}}},
   "port": {"id": {"type": "ifname", "value": "eth0"}}}},
  {"swp2": {"chassis": {"h2": {"capability": [{"type": "Bridge", "enabled": true}]}},
   "port": {"id": {"type": "mac", "value": "02:01"}, "descr": "eth1"}}}
]}}""",
    "LocalPort    RemoteDevice    RemotePortID    Capability    RemotePortDescr\n"
    "-----------  --------------  --------------  ------------  -----------------\n"
    "Ethernet0    leaf2           Ethernet4       BR            x\n"
    "Ethernet4    h1              eth0            O\n"
    "--------------------------------------------------\nTotal entries displayed:  2\n",
]


def small_texts() -> list[tuple[str, str]]:
    """Return a reader and a file of each format."""
    tree = with_lids(build("xgft:2;2,2;1,2;1,2"))
    texts = [
        ("ibnetdiscover", write_ibnetdiscover(tree)),
        ("ibsim", write_ibsim(tree)),
        ("ibnetdiscover-p", ports_report(tree)),
        ("iblinkinfo", iblinkinfo(tree)),
        ("iblinkinfo", iblinkinfo(tree, by_line=True)),
        ("saquery", saquery(tree)),
        ("opensm-subnet", subnet_list(tree)),
        ("node-list", node_list(tree)),
        ("db-csv", db_csv(tree)),
        ("net-dump", net_dump(tree)),
        ("net-dump-ext", net_dump_ext(tree)),
        *zip(("ibdm", "ibdm", "lldp", "sonic-lldp"), OTHERS, strict=True),
    ]
    assert {name for name, _ in texts} == set(reader.names())
    return texts


SMALL = small_texts()


@pytest.mark.parametrize(("name", "text"), SMALL)
def test_each_file_is_recognised_as_one_format(name: str, text: str) -> None:
    assert [entry.name for entry in reader if entry.facts["sniff"](text)] == [name]


#: Formats of SMALL in which both ends of a cable list it.
AT_BOTH_ENDS = SMALL[:7]


def outcome(read: Callable[[str, str], object], text: str) -> Fabric | InputError | None:
    """Return the fabric of a text or the refusal; other exceptions are raised."""
    try:
        result = read(text, "mutated")
        if isinstance(result, Neighbours):
            result = joined([result])
        if isinstance(result, Netlist):
            result = result.fabric()
    except InputError as error:
        refusal = error
    else:
        assert not isinstance(result, Fabric) or result.num_nodes > 0
        return result if isinstance(result, Fabric) else None
    assert refusal.file == "mutated"
    assert "\n" not in str(refusal)
    return refusal


def accepts_or_refuses(text: str) -> None:
    """Pass a text to every reader; exceptions other than an `InputError` are raised."""
    readers: list[Callable[[str, str], object]] = [entry.function for entry in reader]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FormatWarning)
        for read in [*readers, parse_names]:
            outcome(read, text)
        for entry in reader:
            assert entry.facts["sniff"](text) in (True, False)


@settings(max_examples=examples(300))
@given(st.sampled_from([*SMALL, ("", write_names(build("ring:3")))]), RANDOM)
def test_mutated_files_are_read_or_refused(small: tuple[str, str], random: Random) -> None:
    accepts_or_refuses(mutated(random, small[1]))


@pytest.mark.parametrize(
    "batch", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 400))]
)
def test_many_mutated_files_are_read_or_refused(batch: int) -> None:
    """A mutated file, with sessions and pages of a terminal removed, and together with its own."""
    for number in range(250):
        random = Random(1000 * batch + number)
        name, text = random.choice(SMALL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FormatWarning)
            changed = without_session(mutated(random, text), "mutated")
            outcome(reader[name].function, changed)
            own = reader[name].function(text, "own")
            if isinstance(own, Netlist) and own.real_guids:
                outcome(partial(together_with, own, reader[name].function), changed)


def together_with(own: Netlist, read: Callable[[str, str], object], text: str, file: str) -> object:
    other = read(text, file)
    if not isinstance(other, Netlist):
        return other
    try:
        return merged([own, other])
    except InputError as error:
        # Whatever is wrong, the file that was changed has it.
        raise InputError(error.message, file=file) from None


@settings(max_examples=examples(1000))
@given(
    st.sampled_from(AT_BOTH_ENDS),
    st.sampled_from(["drop", "double", "cut", "scrap", "end", "join", "break"]),
    RANDOM,
)
def test_damage_to_one_line_is_refused_or_loses_no_cable_in_silence(
    small: tuple[str, str], act: str, random: Random
) -> None:
    name, text = small
    lines = text.rstrip("\n").split("\n")
    if act == "end":
        lines.pop()  # at least the last line is lost
    mutate(random, lines, act)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = outcome(reader[name].function, "\n".join(lines))
    # What is left of a file may be a switch without cables.
    if isinstance(found, Fabric) and found.num_nodes > 1:
        said = [each.message for each in caught if isinstance(each.message, FormatWarning)]
        lost = sum(each.lost for each in said)
        incomplete = any(each.kind == "incomplete" for each in said)
        assert found.num_cables + lost == 12 or incomplete


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_mutated_real_files_are_read_or_refused(shared: Path, data: st.DataObject) -> None:
    files = sorted((shared / "fabrics").glob("psmn-x5.*"))
    assume(files)
    text = data.draw(st.sampled_from(files)).read_text()
    accepts_or_refuses(mutated(data.draw(RANDOM), text))


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    accepts_or_refuses(text)


@pytest.mark.parametrize(
    "scrap", ["[1]" + " " * 1900, "[" * 1900, '[1] "' * 300, "a/" * 900, "-" * 1900]
)
def test_lines_that_provoke_backtracking_are_fast(scrap: str) -> None:
    """A regular expression that tries all partitions of such a line would not end."""
    accepts_or_refuses(SMALL[0][1].replace("\n", scrap + "!\n", 1))
