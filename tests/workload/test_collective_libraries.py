"""Libraries of collectives: their decisions, what they say, machines, and times in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference.collectives import run_collective

import weft
from weft.cli import main
from weft.core.errors import InputError
from weft.workload.collectives import COLLECTIVES, Sizes, collective, default_algorithm
from weft.workload.collectives.libraries import LibraryCall, choose, library
from weft.workload.load import depends_on_places
from weft.workload.places import Places

FIVE = ("allreduce", "alltoall", "allgather", "bcast", "reduce-scatter")
#: Algorithms that only some libraries take.
NEW = (
    "bcast-linear", "bcast-tree", "bcast-chain", "bcast-split-binary", "bcast-two-level",
    "reduce-linear", "reduce-in-order-binary", "reduce-tree",
    "allreduce-reduce-bcast", "allreduce-two-level", "allgather-neighbor-exchange",
    "reduce-scatter-butterfly", "reduce-scatter-reduce-scatter", "alltoall-in-place",
    "alltoall-recursive-doubling",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "collective", "size", "n", "machine", "text"),
    [
        # Each line of Open MPI's functions is written as limits below which a number holds.
        ("openmpi-5", "allreduce", 131071, 128, 1,
         "reduce-bcast, reduce binomial, bcast knomial (nonoverlapping)"),
        ("openmpi-5", "allreduce", 131072, 128, 1, "recursive-doubling"),
        ("openmpi-5", "allreduce", 262144, 128, 1, "rabenseifner"),
        ("openmpi-5", "allreduce", 63, 31, 1,
         "recursive-doubling (segmented_ring without segments of fewer elements than ranks)"),
        ("openmpi-5", "allreduce", 65536, 3, 1, "ring (segmented_ring without segments)"),
        ("openmpi-5", "allreduce", 128, 63, 1, "rabenseifner"),
        ("openmpi-5", "allreduce", 8191, 15, 1, "recursive-doubling"),
        ("openmpi-5", "allreduce", 1024, 7168, 1,
         "reduce-bcast, reduce in-order-binary, bcast knomial (nonoverlapping)"),
        ("openmpi-5", "alltoall", 4095, 100, 1,
         "linear, throttle 0 (linear_sync without a limit of requests)"),
        ("openmpi-5", "alltoall", 262144, 127, 1, "pairwise, shift True"),
        ("openmpi-5", "alltoall", 511, 16, 1, "bruck"),
        ("openmpi-5", "allgather", 1023, 48, 1, "bruck (recursive_doubling of no power of two)"),
        ("openmpi-5", "allgather", 1024, 48, 1, "neighbor-exchange"),
        ("openmpi-5", "allgather", 1024, 47, 1, "ring (neighbor of an odd number)"),
        ("openmpi-5", "allgather", 65536, 48, 1, "ring"),
        ("openmpi-5", "bcast", 16384, 256, 1, "split-binary"),
        ("openmpi-5", "bcast", 2047, 32, 1, "tree, shape near (binomial)"),
        ("openmpi-5", "bcast", 2**20, 16, 1, "scatter-doubling"),
        ("openmpi-5", "bcast", 2**20, 5, 1, "chain, segment 0"),
        ("openmpi-5", "reduce-scatter", 65535, 32, 1, "butterfly"),
        ("openmpi-5", "reduce-scatter", 65536, 32, 1,
         "reduce-scatter, reduce binomial (nonoverlapping)"),
        ("openmpi-5", "reduce-scatter", [64, *[0] * 31], 32, 1, "recursive-halving"),
        ("mvapich2", "allreduce", 4096, 64, 16,
         "two-level, between recursive-doubling, within binomial "
         "(where it uses an allreduce within machines)"),
        ("mvapich2", "allreduce", 8192, 256, 16,
         "two-level, between rabenseifner, within binomial "
         "(where it uses an allreduce within machines)"),
        ("mvapich2", "allreduce", 1, 64, 16, "two-level, between rabenseifner, within linear"),
        ("mvapich2", "allreduce", 8192, 64, 16, "rabenseifner"),
        ("mvapich2", "allreduce", 4096, 4, 1, "recursive-doubling"),
        ("mvapich2", "allreduce", 2**30, 4000, 1, "rabenseifner"),
        ("mvapich2", "bcast", 40000, 100, 16, "two-level, radix 4, segment 8192"),
        ("mvapich2", "bcast", 2**20, 16, 16, "two-level, between binomial"),
        ("mvapich2", "bcast", 2**20, 8, 1, "scatter-ring"),
        ("mvapich2", "allgather", 2048, 32, 16, "ring"),
        ("mvapich2", "alltoall", 4096, 32, 16, "in-place"),
        # The look-up never reaches the last size of a table.
        ("mvapich2", "alltoall", 2**20, 256, 16, "pairwise"),
        ("mvapich2", "alltoall", 2**19, 512, 16, "linear"),
        ("mvapich2", "bcast", 2**20, 16, 1, "binomial"),
        # Numbers of ranks a machine without a table take that for one.
        ("mvapich2", "bcast", 2**20, 16, 4,
         "two-level, between binomial (where it uses knomial trees within machines)"),
        ("mvapich2", "allreduce", 2048, 16, 1, "recursive-doubling"),
        ("mvapich2", "allreduce", 4096, 16, 1, "rabenseifner"),
        ("mvapich2", "allreduce", 4096, 16, 4, "two-level, between rabenseifner, within linear"),
        ("mvapich2", "allreduce", 2048, 32, 0,
         "two-level, between recursive-doubling, within binomial"),
        ("mvapich2", "reduce-scatter", 8192, 32, 16, "pairwise"),
        ("mvapich2", "reduce-scatter", 4096, 32, 16, "recursive-halving"),
        ("mpich", "bcast", 12288, 65, 1, "scatter-ring"),
    ],
)  # fmt: skip
def test_libraries_choose_as_their_sources_say(
    name: str, collective: str, size: object, n: int, machine: int, text: str
) -> None:
    assert str(choose(name, LibraryCall(collective, size, n, machine))) == text  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["mpich", "openmpi-5", "mvapich2"])
@pytest.mark.parametrize("kind", FIVE)
def test_every_choice_is_an_algorithm_with_such_options(name: str, kind: str) -> None:
    sizes = [1, 3, 12, *(2**bit for bit in range(4, 24))]
    seen = set()
    for n in (2, 3, 5, 8, 9, 16, 31, 40, 64, 100, 200, 256, 300, 700, 1500, 3000, 6000):
        for size in sizes:
            try:
                choice = choose(name, LibraryCall(kind, size, n, 16 if n % 16 == 0 else 1))
            except InputError as error:
                seen.add("error" if "takes here" in error.message else "wrong")
                continue
            collective.bind(collective[f"{kind}-{choice.algorithm}"], choice.options)
            seen.add(choice.algorithm)
    assert "wrong" not in seen
    assert len(seen - {"error"}) >= 2
    assert ("error" in seen) == (name == "openmpi-5" and kind == "reduce-scatter")


def test_a_workload_says_what_its_library_took() -> None:
    work = weft.load_workload("allreduce:size=128KiB,library=openmpi-5,count=2", 128)
    assert work.notes == ("openmpi-5 takes recursive-doubling for allreduce of 128 ranks",)
    assert len(work.messages) == 2 * 128 * 7
    eight = Places(np.arange(32) // 8, np.arange(32) % 8)
    work = weft.load_workload("allreduce:size=8,library=mvapich2", 32, places=eight)
    assert "two-level" in work.notes[0]
    # 7 to and from a leader within each machine, 2 rounds of 4 leaders between them.
    assert len(work.messages) == 4 * 14 + 2 * 4
    between = eight.machine[work.rank] != eight.machine[work.peer]
    assert between[work.messages].sum() == 8
    assert default_algorithm("allreduce", 8, 32, library="mvapich2", per_machine=8) == "two-level"
    assert len(list(library)) >= 3


def test_a_simulation_gives_libraries_the_machines_of_its_placement(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for spec, depends in (
        ("allreduce:size=8,library=mvapich2", True), ("bcast-two-level:size=8", True),
        ("bcast:size=8,algorithm=two-level", True), ("bcast:size=8", False), ("barrier", False),
        ("bcast.goal", False), ("hpcg", False),
    ):  # fmt: skip
        assert depends_on_places(spec) == depends
    run = ["simulate", "kary-n-tree:4;2", "--ranks", "64", "--ranks-per-host", "16"]
    assert main([*run, "--workload", "allreduce:size=8,library=mvapich2", "--level", "flow"]) == 0
    assert "mvapich2 takes two-level, between" in capsys.readouterr().out


def test_groups_on_machines_in_different_ways_are_refused() -> None:
    builder = weft.WorkloadBuilder(4)
    places = Places(np.array([0, 0, 1, 2]), np.zeros(4, dtype=np.int64))
    with pytest.raises(InputError, match="on machines in the same way"):
        weft.collective_on(
            builder, "allreduce", [[0, 1], [2, 3]], 8, algorithm="two-level", places=places
        )


@pytest.mark.parametrize("entry", NEW)
def test_all_numbers_of_ranks_to_33(entry: str) -> None:
    """Also with segments, any root, and machines of different sizes."""
    facts = collective[entry].facts
    kind = COLLECTIVES[facts["collective"]]
    options = {"segment": 17} if "segment" in collective[entry].options else {}
    for n in range(1, 34):
        draw = np.random.default_rng(n)
        places = Places(draw.integers(0, 1 + n // 3, n), np.zeros(n, dtype=np.int64))
        size = 3 if kind.sizes is Sizes.PAIR else 101
        run_collective(
            kind.name, facts["algorithm"], np.arange(n), size, places=places,
            root=int(draw.integers(n)) if kind.rooted else 0,
            reduce_ns_per_byte=0.5 * kind.combines, **options,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "buffers"),
    [
        ("bcast:algorithm=linear", 7),
        ("bcast:algorithm=tree,shape=chain", 7),
        ("bcast:algorithm=chain,segment={0}", 1.75),
        # A rank sends to all its children at once, and a message takes as many times as long.
        ("bcast:algorithm=tree,shape=binary", 5),
        ("bcast:algorithm=tree,shape=near", 6),
        ("bcast:algorithm=tree,shape=knomial,radix=4", 7),
        ("bcast:algorithm=split-binary", 2.5),
        ("bcast:algorithm=two-level", 4),
        ("reduce:algorithm=linear", 7),
        ("reduce:algorithm=tree,shape=chain", 7),
        ("reduce:algorithm=tree,shape=binary", 4),
        ("allreduce:algorithm=two-level", 3),
        ("allreduce:algorithm=reduce-bcast", 6),
        ("allreduce:algorithm=reduce-bcast,reduce=linear,bcast=linear", 14),
        ("allgather:algorithm=neighbor-exchange", 7),
        ("reduce-scatter:algorithm=butterfly", 8),
        ("reduce-scatter:algorithm=reduce-scatter", 31),
        ("alltoall:algorithm=in-place", 13),
        ("alltoall:algorithm=pairwise,shift=true", 7),
        ("alltoall:algorithm=recursive-doubling", 56),
    ],
)
@pytest.mark.parametrize("level", ["flow", "packet"])
def test_bytes_cost_their_closed_form_on_one_switch(spec: str, buffers: float, level: str) -> None:
    """From 512 KiB to 1 MiB, the time grows by that of `buffers` times as many bytes on a cable.

    Segments are an eighth of the buffer, so that their number stays the same.
    """
    fabric = weft.fabric("kary-n-tree:8;1")
    routes = weft.route(fabric, "minhop")
    hardware = weft.Hardware(header_bytes=0)

    def time_ns(size: int) -> float:
        work = weft.load_workload(f"{spec.format(size // 8)},size={size}", 8)
        result = weft.simulate(fabric, routes, work, level=level, hardware=hardware)
        return float(result.makespan_ns)

    grows = time_ns(2**20) - time_ns(2**19)
    assert grows == pytest.approx(buffers * 2**19 * 8 / fabric.host_rate_gbps, rel=0.002)
