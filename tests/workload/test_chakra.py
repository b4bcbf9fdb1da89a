"""Chakra execution traces: nodes as operations, groups, archives, and traces that are wrong."""

from __future__ import annotations

import gzip
import json
import random
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tests.chakra_files import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    COLLECTIVE,
    COMP,
    METADATA,
    RECV,
    REDUCE_SCATTER,
    SEND,
    field,
    node,
    trace,
    varint,
    write_traces,
)
from tests.workload.test_goal_binary import mutated
from tests.workload_runs import finish_times, same

import weft
from weft.core.errors import InputError, WeftError
from weft.fabrics.machine_model import machine_model
from weft.workload import Kind, Workload
from weft.workload.apps import application_workload
from weft.workload.collectives import collective_workload
from weft.workload.formats import read_workload
from weft.workload.formats.protobuf import fields
from weft.workload.formats.protobuf import varint as read_varint
from weft.workload.places import Places


def all_reduce(number: int, **more: int | str) -> bytes:
    return node(number, COLLECTIVE, comm_type=ALL_REDUCE, comm_size=1 << 20, **more)  # type: ignore[arg-type]


def ends(workload: Workload) -> float:
    """Return when all operations have ended if messages take no time."""
    return float(finish_times(workload, 0.0).max())


def test_nodes_wait_for_data_and_control_and_streams_overlap(tmp_path: Path) -> None:
    one = trace(
        node(0, COMP, us=10, is_cpu_op=True),
        node(1, COMP, us=100, after=[0], stream=7),
        node(2, COMP, us=50, control=[0], stream=20),
        node(3, COMP, us=5, after=[1, 2], stream=7),
    )
    workload = read_workload(write_traces(tmp_path / "run", one))
    assert workload.duration_ns.tolist() == [10_000, 100_000, 50_000, 5_000]
    assert workload.cpu.tolist() == [0, 1, 2, 1]
    assert workload.dep.tolist() == [0, 0, 1, 2]
    assert ends(workload) == 115_000
    fabric = weft.fabric("xgft:1;2;1")
    result = weft.simulate(fabric, weft.route(fabric, "dmodk"), workload)
    assert result.makespan_ns == 115_000
    # On one stream, nodes take turns.
    same_stream = trace(node(0, COMP, us=3, stream=1), node(1, COMP, us=4, stream=1))
    result = weft.simulate(
        fabric,
        weft.route(fabric, "dmodk"),
        read_workload(write_traces(tmp_path / "b", same_stream)),
    )
    assert result.makespan_ns == 7_000


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (ALL_REDUCE, "allreduce:size=64KiB"),
        (ALL_GATHER, "allgather:size=64KiB"),
        (REDUCE_SCATTER, "reduce-scatter:size=16KiB"),
        (ALL_TO_ALL, "alltoall:size=16KiB"),
        (BROADCAST, "bcast:size=64KiB"),
        (BARRIER, "barrier"),
    ],
)
def test_collectives_are_those_of_weft(tmp_path: Path, kind: int, spec: str) -> None:
    rank = trace(
        node(0, COMP, us=1), node(1, COLLECTIVE, after=[0], comm_type=kind, comm_size=1 << 16),
        node(2, COMP, us=1, after=[1]),
    )  # fmt: skip
    workload = read_workload(write_traces(tmp_path / "run", *[rank] * 4))
    alone = collective_workload(spec, 4)
    sends = workload.kind == Kind.SEND
    assert np.array_equal(workload.size_bytes[sends], alone.size_bytes[alone.kind == Kind.SEND])
    assert np.array_equal(workload.peer[sends], alone.peer[alone.kind == Kind.SEND])
    # Every message is between the two computations.
    assert ends(workload) == 2_000
    assert finish_times(workload, 7.0).max() == 2_000 + finish_times(alone, 7.0).max()


def test_algorithms_are_chosen_by_name(tmp_path: Path) -> None:
    folder = write_traces(tmp_path / "run", *[trace(all_reduce(0))] * 4)
    sizes = {
        name: read_workload(folder, f"chakra:algorithms={name}").size_bytes.max()
        for name in ("allreduce-ring", "allreduce-recursive-doubling")
    }
    assert sizes == {"allreduce-ring": 1 << 18, "allreduce-recursive-doubling": 1 << 20}


def test_nccl_chooses_for_machines_of_a_model(tmp_path: Path) -> None:
    rank = trace(node(0, COMP, us=1), all_reduce(1, after=[0]), node(2, COMP, us=1, after=[1]))
    workload = read_workload(write_traces(tmp_path / "run", *[rank] * 16), "chakra:node=dgx-h100")
    ranks = np.arange(16)
    places = Places(ranks // 8, ranks % 8, machine_model("dgx-h100"))
    alone = application_workload("nccl:allreduce,size=1MiB", 16, places=places)
    assert set(alone.notes) <= set(workload.notes)
    for of in (Kind.SEND, Kind.RECV):
        (there, here), peers = ((w.kind == of) for w in (alone, workload)), "peer"
        assert np.array_equal(getattr(alone, peers)[there], getattr(workload, peers)[here])
    assert finish_times(workload, 9.0).max() == pytest.approx(
        2000 + finish_times(alone, 9.0).max(), rel=1e-12
    )


def test_groups_come_from_metadata_or_a_file(tmp_path: Path) -> None:
    for with_file in (False, True):  # the file takes precedence
        one = [1, 2] if with_file else [0, 2]
        stated = [{"pg_name": "0", "ranks": []}, {"pg_name": "1", "ranks": one}]
        init = node(9, METADATA, values=str([json.dumps(stated)]))
        pair = trace(init, all_reduce(0, pg_name="1"), all_reduce(1, pg_name="0"))
        other = trace(init, all_reduce(1, pg_name="0"))
        folder = write_traces(tmp_path / str(with_file), pair, other, pair)
        (tmp_path / "groups.json").write_text('{"1": [0, 2]}')
        options = f":groups_file={tmp_path / 'groups.json'}" if with_file else ""
        workload = read_workload(folder, f"chakra{options}")
        assert workload.comm_names == ("world", "1", "0")
        for comm, ranks in ((1, {0, 2}), (2, {0, 1, 2})):
            assert set(workload.rank[workload.comm == comm].tolist()) == ranks


def test_messages_match_by_tag(tmp_path: Path) -> None:
    zero = trace(
        node(0, SEND, comm_dst=1, comm_size=100, comm_tag=5),
        node(1, SEND, comm_src=0, comm_dst=1, comm_size=200, comm_tag=6),
    )
    one = trace(
        node(4, RECV, comm_src=0, comm_size=200, comm_tag=6),
        node(7, RECV, comm_src=0, comm_dst=1, comm_size=100, comm_tag=5),
    )
    workload = read_workload(write_traces(tmp_path / "run", zero, one))
    assert workload.match.tolist() == [3, 2, 1, 0]


def test_archives_and_compressed_files_read_the_same(tmp_path: Path) -> None:
    ranks = [trace(node(0, COMP, us=rank), all_reduce(1, after=[0])) for rank in range(3)]  # type: ignore[arg-type]
    folder = write_traces(tmp_path / "step", *ranks)
    expected = read_workload(folder)
    packed = tmp_path / "packed"
    packed.mkdir()
    for rank, data in enumerate(ranks):
        (packed / f"step.{rank}.et").write_bytes(gzip.compress(data))
    (packed / "notes.txt").write_text("not a trace")
    for archive, mode, source in (
        ("step.tar", "w", folder), ("step.tar.gz", "w:gz", folder), ("z.tgz", "w:gz", packed),
    ):  # fmt: skip
        with tarfile.open(tmp_path / archive, mode) as stream:  # type: ignore[call-overload]
            stream.add(source, "traces/step")
        assert same(read_workload(tmp_path / archive), expected)
    assert same(read_workload(packed), expected)
    assert read_workload(folder / "step.0.et").num_ranks == 1
    with pytest.raises(InputError, match="trace of one rank; give the folder"):
        read_workload(folder / "step.1.et")


def test_amounts_become_times_on_request(tmp_path: Path) -> None:
    one = trace(
        node(0, COMP, num_ops=4000), node(1, COMP, num_ops=4000, us=1), node(2, 2, tensor_size=500),
        node(3, 8, us=3, control=[99]),
    )  # fmt: skip
    folder = write_traces(tmp_path / "run", one)
    plain = read_workload(folder)
    assert plain.duration_ns.tolist() == [0, 1000, 0, 3000]
    assert [text[:2] for text in plain.notes] == ["1 "] * 3
    timed = read_workload(folder, "chakra:flops_per_s=2e9")
    assert timed.duration_ns.tolist() == [2000, 1000, 0, 3000]
    assert timed.notes == (
        "1 memory nodes without duration take no time",
        "1 control dependencies on nodes that the trace lacks are left out",
    )  # fmt: skip


def ring(*after: int) -> bytes:
    return trace(node(0, COMP, after=after), node(1, COMP, after=[0]))


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        ([b""], r"step.0.et: is empty"),
        ([trace(node(0, COMP))[:-1]], "behind the metadata: the file ends in a message of"),
        ([trace(node(0, COMP), node(1, COMP)[:-2])], "behind node 0: a field of .* ends behind"),
        ([varint(2) + field(1, 7)], "behind the metadata: field 1 is no bytes"),
        ([trace(node(0, COMP), schema="1.0.1-chakra.0.0.3")], "expected 0.0.4 or later"),
        ([trace(field(1, b"x"))], "behind the metadata: field 1 is no int"),
        ([trace(b"\x0b")], "wire type 3"),
        ([trace(node(0, 11))], "node 0: the type 11 is unknown; expected 0 to 10"),
        ([trace(node(0, COMP), node(0, COMP))], "node 0: occurs twice"),
        ([ring(5)], "node 0: waits for node 5, which the trace lacks"),
        (
            [ring(1)],
            r"step.0.et: operations wait for each other in a cycle: operation 0 of rank 0, node 0",
        ),
        ([trace(node(3, SEND, comm_size=1))], "node 3: has no comm_dst"),
        ([trace(node(3, SEND, comm_dst=4))], "node 3: comm_dst is '4'; expected 0 to 0"),
        ([trace(node(3, COMP, runtime=-1))], "node 3: runtime is '-1'; expected 0 to"),
        ([trace(node(3, COMP, runtime="now"))], "node 3: runtime is 'now'; expected 0 to"),
        ([trace(node(3, COMP, runtime=float("nan")))], "node 3: runtime is 'nan'"),
        (
            [trace(node(3, SEND, comm_dst=1, comm_size=1)), trace()],
            r"operation 0 of rank 0, node 3 \(send to rank 1, tag 0\) has no matching receive",
        ),
        ([trace(all_reduce(0, pg_name="5"))], "node 0: there is no process group '5'"),
        (
            [trace(all_reduce(0), all_reduce(1)), trace(all_reduce(0))],
            r"step.0.et: node 1: is collective 1 .* of which rank 1 has 1, counted from 0",
        ),
        (
            [trace(all_reduce(0)), trace(node(8, COLLECTIVE, comm_type=BARRIER))],
            r"step.1.et: node 8: comm_type is 9, but .* node 0 of rank 0 is 0",
        ),
        ([trace(node(4, COLLECTIVE, comm_type=10))], "node 4: comm_type is '10'; expected 0 to 9"),
        (
            [trace(node(1, METADATA, values='[{"pg_name": "1", "ranks": [7]}]'))],
            "group '1' names rank '7'; there are traces of ranks 0 to 0",
        ),
        ([trace(node(1, METADATA, values='[{"pg_name": 1}]'))], "group '1' names rank 'None'"),
        ([trace(node(1, METADATA, values='[{"pg_name": }]'))], "are not valid JSON"),
    ],
)
def test_traces_that_are_wrong_name_file_and_node(
    tmp_path: Path, ranks: list[bytes], message: str
) -> None:
    folder = write_traces(tmp_path / "run", *ranks)
    with pytest.raises(InputError, match=message) as caught:
        read_workload(folder)
    assert str(folder) in str(caught.value)


def test_missing_ranks_and_broken_archives_are_refused(tmp_path: Path) -> None:
    folder = write_traces(tmp_path / "run", *[trace()] * 4)
    (folder / "step.1.et").unlink()
    with pytest.raises(InputError, match="rank 1 has no trace; the last of 3 is rank 3"):
        read_workload(folder)
    (folder / "step.3.et.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"rank 3 is in .*step\.3\.et already"):
        read_workload(folder)
    for name, mode, most in (("x.tar.gz", "w:gz", 90), ("x.tar", "w", 1024), ("y.tar", "w", 1000)):
        with tarfile.open(tmp_path / name, mode) as stream:  # type: ignore[call-overload]
            stream.add(folder / "step.0.et", "step.0.et")
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:most])
        with pytest.raises(InputError, match=r"is not a readable archive|ends before the end"):
            read_workload(tmp_path / name)
    with tarfile.open(tmp_path / "none.tar", "w"):
        pass
    with pytest.raises(InputError, match="has no traces; expected files such as NAME"):
        read_workload(tmp_path / "none.tar")


def test_fields_of_all_kinds_are_passed_over() -> None:
    message = field(1, 300) + field(2, "text") + field(3, 1.5) + b"\x25\1\0\0\0" + field(2000, 7)
    assert [*fields(message, {1: int, 2: bytes, 2000: object})] == [
        (1, 300), (2, b"text"), (2000, 7),
    ]  # fmt: skip
    for value in (0, 127, 128, 2**63, 2**64 - 1):
        assert read_varint(varint(value), 0) == (value, len(varint(value)))


@pytest.mark.slow
def test_no_trace_ends_in_a_traceback(tmp_path: Path) -> None:
    draw = random.Random(5)
    init = node(9, METADATA, values='[{"pg_name": "1", "ranks": [0, 1]}]')
    ranks = [
        trace(
            init, node(0, COMP, us=10, is_cpu_op=True), all_reduce(1, pg_name="1"),
            node(2, COMP, after=[0, 1], control=[0], num_ops=5, runtime=2.5),
            node(3, (SEND, RECV)[own], comm_size=9, **{("comm_dst", "comm_src")[own]: 1 - own}),
        )
        for own in (0, 1)
    ]  # fmt: skip
    folder, refused = write_traces(tmp_path / "run", *ranks), 0
    assert read_workload(folder).num_ranks == 2
    for _ in range(3_000):
        (folder / "step.0.et").write_bytes(mutated(ranks[0], draw))
        try:
            read_workload(folder, "chakra")
        except WeftError:
            refused += 1
    assert refused > 1_500
