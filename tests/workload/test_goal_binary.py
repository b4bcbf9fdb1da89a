"""Binary GOAL: the layout of LogGOPSim's code, round trips, and files that lie."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.random_workloads import random_workload
from tests.workload_runs import same

from weft.core.errors import InputError, NotApplicable, WeftError
from weft.workload import Kind, Workload, WorkloadBuilder
from weft.workload.formats import goal, goal_bin, read_workload, write_workload

TYPES = {Kind.SEND: 1, Kind.RECV: 2, Kind.CALC: 3}
LAYOUTS = ("loggopsim", "loggopsim2")


def packed(workload: Workload, further: bytes = b"") -> bytes:
    """Return what LogGOPSim's serialize_mmap writes, one operation at a time.

    `further`: what follows each record in LogGOPSim2.
    """
    parts = []
    on_start = workload.dep_on_start if len(workload.dep_on_start) else workload.dep < 0
    for begin, end in zip(workload.op_offset, workload.op_offset[1:], strict=False):
        before = [
            [
                (int(workload.dep[at] - begin), bool(on_start[at]))
                for at in range(workload.dep_offset[op], workload.dep_offset[op + 1])
            ]
            for op in range(begin, end)
        ]
        roots = [at for at, waits in enumerate(before) if not waits]
        data = struct.pack("<II", end - begin, len(roots)) + struct.pack(f"<{len(roots)}I", *roots)
        appendix: list[int] = []
        for at, op in enumerate(range(begin, end)):
            ends, starts = (
                [waits for waits, on in enumerate(before) if (at, start) in on]
                for start in (False, True)
            )
            calc = workload.kind[op] == Kind.CALC
            data += struct.pack(
                "<IBIQIBBIIII", len(before[at]), TYPES[Kind(workload.kind[op])],
                0 if calc else workload.peer[op],
                int(workload.duration_ns[op]) if calc else workload.size_bytes[op],
                0 if calc else int(workload.tag[op]) % 2**32,
                workload.cpu[op] if len(workload.cpu) else 0, 0,
                len(ends), len(appendix), len(starts), len(appendix) + len(ends),
            ) + further  # fmt: skip
            appendix += ends + starts
        parts.append(data + struct.pack(f"<{len(appendix)}I", *appendix))
    at = 6 + 16 * len(parts)
    table = b""
    for part in parts:
        table += struct.pack("<QQ", at, at + len(part))
        at += len(part)
    most = int(workload.cpu.max(initial=0))
    return struct.pack("<QIBB", 4223, len(parts), most, 0) + table + b"".join(parts)


def expressible(seed: int) -> Workload:
    """Return a random workload that GOAL can express, on several processors."""
    draw = random.Random(seed)
    ranks = draw.randrange(1, 6)
    builder = WorkloadBuilder(ranks)
    for _ in range(draw.randrange(30)):
        ends = draw.randrange(ranks), draw.randrange(ranks)
        tag = draw.choice([0, 7, -5])
        sent = builder.isend(*ends, draw.randrange(2**40), tag)
        got = builder.irecv(*ends[::-1], 2**40, tag)
        calc = builder.calc(ends[0], draw.randrange(2**50), cpu=draw.choice([0, 0, 3]), after=[])
        builder.requires(calc, sent, start=draw.random() < 0.5)
        if ends[0] != ends[1] and draw.random() < 0.5:
            builder.wait(ends[1], got)
            builder.calc(ends[1], 5)
    return builder.build()


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_files_are_those_of_loggopsim_and_read_back_the_same(seed: int) -> None:
    workload = expressible(seed)
    assert goal_bin.write(workload) == packed(workload)
    for layout in LAYOUTS:
        data = goal_bin.write(workload, layout=layout)
        again = goal_bin.read(data, "x.bin")
        assert same(workload, again)
        assert same(goal.read(goal.write(again), "x.goal"), workload)
        assert goal_bin.write(again, layout=layout) == data


def test_portals_fields_of_loggopsim2_do_not_matter() -> None:
    workload = expressible(3)
    assert same(goal_bin.read(packed(workload, b"\xa5" * 65), "x.bin"), workload)


def test_the_contents_tell_the_format(tmp_path: Path) -> None:
    builder = WorkloadBuilder(2)
    builder.rank(0).send(1, 8, tag=3)
    builder.rank(1).recv(0, 8, tag=3)
    for name in ("ping.bin", "ping"):
        write_workload(builder.build(), tmp_path / name, "goal-bin")
        assert same(read_workload(tmp_path / name), builder.build())
    with pytest.raises(NotApplicable, match="the option whole_ns rounds them"):
        goal_bin.write(random_workload(1))


def two() -> bytes:
    """Return a schedule of two ranks; the record of the first operation begins at byte 58."""
    builder = WorkloadBuilder(2)
    builder.rank(0).calc(5).send(1, 8)
    builder.rank(1).recv(0, 8)
    return goal_bin.write(builder.build())


def patched(at: int, value: int, form: str = "<I") -> bytes:
    data = bytearray(two())
    struct.pack_into(form, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (two()[:11], "ends in its header, after 11 bytes"),
        (patched(0, 4224, "<Q"), "begins with 4224; expected 4223"),
        (patched(0, 2342, "<Q"), "--save-mem has used this schedule up"),
        (patched(8, 2**32 - 1), "too few for 4294967295 ranks"),
        (patched(8, 0), "too few for 0 ranks"),
        (two()[:-1], "rank 1 is said to be at .* outside the file of"),
        (patched(14, 2**64 - 1, "<Q"), "rank 0 is said to be at 18446744073709551615"),
        (patched(30, 40, "<Q"), "rank 1 is said to be at 40 .* overlaps another rank"),
        (patched(46, 2**31), "rank 0 has .* bytes, too few for 2147483648 operations"),
        (patched(54, 1), "rank 0 does not list its operations without dependencies"),
        (patched(58, 1), "operation 0 of rank 0 is said to wait for 1 others"),
        (patched(62, 9, "<B"), "operation 0 of rank 0: is of type 9; weft reads 1 to 3"),
        (patched(67, 2**60, "<Q"), "operation 0 of rank 0: has size or duration 115292150460"),
        (patched(81, 2), "rank 0 has 4 bytes of dependencies; expected 8"),
        (patched(85, 1), "dependencies on operation 0 of rank 0 are not there"),
        (patched(136, 7), "a dependency of rank 0 is of operation 7 of 2"),
        (patched(102, 2), "operation 1 of rank 0: is with rank 2; ranks are 0 to 1"),
        (patched(157, 2**32 - 1), "4294967295 as source means any source"),
        (patched(114, 2**32 - 1), "operation 1 of rank 0: tag 4294967295 means any tag"),
        (patched(106, 9, "<Q"), "operation 1 of rank 0 .* sends 9 bytes"),
    ],
)  # fmt: skip
def test_files_that_lie_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        goal_bin.read(data, "x.bin")
    assert caught.value.file == "x.bin"


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Return a file with a few bytes changed, removed or added, or without its end."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at = draw.randrange(len(changed) + 1)
        what = draw.choice(["set", "set", "set", "cut", "remove", "add", "fill"])
        if what == "set" and at < len(changed):
            changed[at] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
        elif what == "cut":
            del changed[at:]
        elif what == "remove":
            del changed[at : at + draw.randrange(1, 9)]
        elif what == "add":
            changed[at:at] = draw.randbytes(draw.randrange(1, 9))
        elif what == "fill":
            changed[at : at + 4] = draw.choice([b"\xff", b"\0"]) * 4
    return bytes(changed)


@pytest.mark.slow
def test_no_file_ends_in_a_traceback() -> None:
    draw = random.Random(5)
    files = [goal_bin.write(expressible(seed), layout=LAYOUTS[seed % 2]) for seed in range(6)]
    refused = 0
    for _ in range(10_000):
        try:
            goal_bin.read(mutated(draw.choice(files), draw), "x.bin")
        except WeftError:
            refused += 1
    assert refused > 5_000
