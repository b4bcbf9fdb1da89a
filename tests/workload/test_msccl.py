"""MSCCL schedules: correct ones become workloads, and every damage is refused with its line."""

from __future__ import annotations

import random
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft.core.errors import InputError
from weft.workload import Kind, Workload
from weft.workload.formats import read_workload

Step = tuple[str, str, int, str, int]


def xml(
    coll: str,
    ranks: int,
    chunks: tuple[int, int, int],
    blocks: dict[tuple[int, int, int], list[Step]],
    waits: dict[tuple[int, int, int, int], tuple[int, int]] | None = None,
    inplace: int = 0,
) -> str:
    """Return a schedule. `blocks`: steps by GPU and by the GPUs that a thread block sends to and
    receives from; `waits`: thread block and step for which the step of a GPU's block waits.
    """
    i, o, s = chunks
    of = f'ngpus="{ranks}" coll="{coll}" inplace="{inplace}"'
    lines = [f'<algo name="t" proto="Simple" nchannels="1" {of}>']
    for rank in range(ranks):
        lines.append(f'<gpu id="{rank}" i_chunks="{i}" o_chunks="{o}" s_chunks="{s}">')
        own = [(key, steps) for key, steps in blocks.items() if key[0] == rank]
        for block, ((_, send, receive), steps) in enumerate(own):
            lines.append(f'<tb id="{block}" send="{send}" recv="{receive}" chan="0">')
            for number, (kind, src, at, dst, to) in enumerate(steps):
                on, step = (waits or {}).get((rank, send, receive, number), (-1, -1))
                lines.append(
                    f'<step s="{number}" type="{kind}" srcbuf="{src}" srcoff="{at}" dstbuf="{dst}" '
                    f'dstoff="{to}" cnt="1" depid="{on}" deps="{step}" hasdep="0"/>'
                )
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"]) + "\n"


def ring_allreduce(n: int) -> str:
    """In place: each chunk goes round twice, first combined, then copied."""
    blocks = {}
    for rank in range(n):
        steps: list[Step] = [("s", "i", rank, "i", rank)]
        for hop in range(1, 2 * n - 1):
            at = (rank - hop) % n
            kind = "rrcs" if hop < n else "r" if hop == 2 * n - 2 else "rcs"
            steps.append((kind, "i", at, "i", at))
        blocks[rank, (rank + 1) % n, (rank - 1) % n] = steps
    return xml("allreduce", n, (n, n, 0), blocks, inplace=1)


def allpairs_allgather(n: int) -> str:
    blocks = {}
    for rank in range(n):
        for peer in range(n):
            if peer != rank:
                blocks[rank, peer, peer] = [("s", "i", 0, "o", rank), ("r", "i", 0, "o", peer)]
        blocks[rank, -1, -1] = [("cpy", "i", 0, "o", rank)]
    return xml("allgather", n, (1, n, 0), blocks)


def hierarchical_allreduce() -> str:
    """Two machines of two: combine within machines, exchange between them, copy within them."""
    blocks, waits = {}, {}
    for rank in range(4):
        near, far = rank ^ 1, rank ^ 2
        mine, other = rank % 2, 1 - rank % 2
        blocks[rank, near, near] = [
            ("s", "i", other, "i", other), ("rrc", "i", mine, "i", mine),
            ("s", "i", mine, "i", mine), ("r", "i", other, "i", other),
        ]  # fmt: skip
        blocks[rank, far, far] = [
            ("s", "i", mine, "s", 0), ("r", "i", mine, "s", 0), ("re", "s", 0, "i", mine)
        ]  # fmt: skip
        waits[rank, far, far, 0] = (0, 1)
        waits[rank, near, near, 2] = (1, 2)
    return xml("allreduce", 4, (2, 2, 1), blocks, waits, inplace=1)


SCHEDULES = {
    "ring-2": ring_allreduce(2), "ring-5": ring_allreduce(5), "allpairs": allpairs_allgather(4),
    "hierarchical": hierarchical_allreduce(),
}  # fmt: skip


def load(text: str, folder: Path, **options: object) -> Workload:
    path = folder / "schedule.xml"
    path.write_text(text)
    return read_workload(path, **{"size": 4000, **options})


@pytest.mark.parametrize("name", SCHEDULES)
def test_correct_schedules_are_workloads_that_run(name: str, tmp_path: Path) -> None:
    work = load(SCHEDULES[name], tmp_path)
    assert "the output is correct" in work.notes[0]
    fabric = weft.fabric("kary-n-tree:8;1")
    for level in ("flow", "packet"):
        result = weft.simulate(fabric, weft.route(fabric, "minhop"), work, level=level)
        assert result.makespan_ns > 0


def test_a_ring_sends_what_the_library_of_collectives_sends(tmp_path: Path) -> None:
    work = load(SCHEDULES["ring-5"], tmp_path, size=1003, reduce_ns_per_byte=0.5)
    same = weft.collective_workload("allreduce:size=1003,algorithm=ring,reduce_ns_per_byte=0.5", 5)
    assert sorted(work.size_bytes[work.messages]) == sorted(same.size_bytes[same.messages])
    assert work.duration_ns.sum() == same.duration_ns.sum()
    assert work.num_ranks == 5
    assert (work.kind == Kind.RECV).sum() == 5 * 8


def damaged(text: str) -> Iterator[str]:
    """Yield schedules with one step dropped, with another chunk in one place, or without a wait."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        if not line.startswith("<step"):
            continue
        changes = [
            re.sub(r'type="\w+"', 'type="nop"', line),
            re.sub(r'depid="\d+"', 'depid="-1"', line),
        ]
        for end in ("srcoff", "dstoff"):
            changes.append(
                re.sub(rf'{end}="(\d+)"', lambda m, end=end: f'{end}="{int(m[1]) ^ 1}"', line)
            )
        for changed in changes:
            if changed != line:
                yield "\n".join([*lines[:at], changed, *lines[at + 1 :]])


def outputs(text: str, draw: random.Random) -> list[int] | None:
    """Run thread blocks in random order; return the outputs of all GPUs, or None if they get stuck.

    A twin of the reader: chunks are numbers, messages are queues, and nothing is judged.
    """
    algo = ElementTree.fromstring(text)
    memory: dict[tuple[str, str, int], int] = {}
    gpus = list(algo)
    shared = algo.get("inplace") == "1"
    for number, gpu in enumerate(gpus):
        for at in range(int(gpu.get("i_chunks"))):
            memory[gpu.get("id"), "i", at] = 3 ** (number * 10 + at)
    queues: dict[tuple, list[int]] = {}
    done = {(gpu.get("id"), tb.get("id")): 0 for gpu in gpus for tb in gpu}
    todo = [(gpu, tb) for gpu in gpus for tb in gpu for _ in tb]
    stuck = 0
    while todo and stuck < 500:
        gpu, tb = pair = draw.choice(todo)
        rank, block = gpu.get("id"), tb.get("id")
        step = tb[done[rank, block]].attrib
        kind, on = step["type"], step["depid"]
        into = queues.setdefault((tb.get("recv"), rank), [])
        stuck += 1
        if (on != "-1" and done[rank, on] <= int(step["deps"])) or (
            kind[0] == "r" and kind != "re" and not into
        ):
            continue
        stuck = 0
        todo.remove(pair)
        done[rank, block] += 1
        source, target = (
            (rank, step["srcbuf"], int(step["srcoff"])),
            (rank, step["dstbuf"], int(step["dstoff"])),
        )
        own = memory.get(source, 0)
        if kind in ("s", "cpy"):
            value = own
        elif kind == "re":
            value = own + memory.get(target, 0)
        else:
            value = (into.pop(0) if kind != "nop" else 0) + (own if kind.startswith("rr") else 0)
        if kind not in ("s", "nop", "rrs"):
            memory[target] = value
        if kind.endswith("s"):
            queues.setdefault((rank, tb.get("send")), []).append(value)
    if todo or any(queues.values()):
        return None
    buffer = "i" if shared else "o"
    return [
        memory.get((g.get("id"), buffer, at), 0)
        for g in gpus
        for at in range(int(g.get("o_chunks")))
    ]


@pytest.mark.parametrize("name", SCHEDULES)
def test_no_damaged_schedule_passes_that_ever_gives_a_wrong_output(
    name: str, tmp_path: Path
) -> None:
    draw = random.Random(3)
    right = outputs(SCHEDULES[name], draw)
    passed = refused = 0
    for case in damaged(SCHEDULES[name]):
        try:
            load(case, tmp_path)
        except InputError as error:
            refused += error.line is not None
            continue
        passed += 1
        assert all(outputs(case, draw) == right for _ in range(20)), case
    assert refused > passed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('coll="allgather"', 'coll="gather"'), "1: coll 'gather' of 4 GPUs; expected allreduce"),
        (('ngpus="4"', 'ngpus="5"'), "1: coll 'allgather' of 4 GPUs; expected allreduce"),
        (('id="1" i_chunks="1"', 'id="1" i_chunks="2"'), "2 i_chunks; expected 1"),
        (("</algo>", ""), "not XML: no element found"),
        (("<algo", '<!DOCTYPE a [<!ENTITY b "c">]><algo'), "1: a document type, which may define"),
        (('type="cpy"', 'type="copy"'), "a step of type 'copy'; expected at most"),
        (('cnt="1"', 'cnt="2"'), "4: chunks 0 to 1 of srcbuf 'i'; gpu 0 has 1"),
        (('cnt="1"', 'cnt="-1"'), "4: cnt is '-1'; expected 1 to"),
        (('depid="-1" deps="-1"', 'depid="3" deps="7"'), "4: there is no step 7 of thread block 3"),
        (('depid="-1" deps="-1"', 'depid="0" deps="1"'), "4: never begins: steps wait for each"),
        (('chan="0"', 'chan="1"'), "nothing is received from gpu 0 to gpu 1 on channel 1"),
        (('type="s" srcbuf="i"', 'type="s" srcbuf="o"'), "4: reads chunk 0 of o of gpu 0, which"),
        (('<tb id="1"', '<tb id="0"'), "gpu 0 has thread block 0 twice"),
        (('<gpu id="1"', '<gpu id="0"'), "gpu 0 is there twice"),
        (('<tb id="0"', '<gpu id="0"'), "3: <gpu> at depth 2; expected algo, gpu, tb, step"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load(SCHEDULES["allpairs"].replace(*change, 1), tmp_path)


def test_a_schedule_without_steps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1: no steps; expected one or more"):
        load(xml("allreduce", 1, (1, 1, 0), {}, inplace=1), tmp_path)
