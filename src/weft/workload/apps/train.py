"""A step of training a transformer that is divided among ranks by tensors, stages and data."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import NotApplicable
from weft.workload.apps.application_registry import (
    all_ranks,
    application,
    at_least,
    check_messages,
    need,
)
from weft.workload.apps.pipeline import actions
from weft.workload.apps.transformers import Transformer, transformer
from weft.workload.builder import WorkloadBuilder
from weft.workload.collectives import collective_on
from weft.workload.nccl import Collective, add_collective
from weft.workload.places import Places
from weft.workload.workload import Kind, TrainingStep, Workload

Ints = NDArray[np.int64]

#: Dense BF16 operations per second, from NVIDIA's data sheets (A100 80GB SXM, H100 SXM, GB200
#: NVL72, DGX B200); those of the last two state twice as many, with sparsity.
PEAK_FLOPS = {"a100": 312e12, "h100": 989.4e12, "gb200": 2500e12, "b200": 2250e12}
#: Latency of a scale-up switch, the default of all switches of a run.
_SWITCH_NS = 100.0
#: Most buckets of a chunk by default.
_BUCKETS = 32
#: Bytes of an activation and of a parameter (BF16), and of a gradient.
_BF16, _GRADIENT = 2, 4
_FORWARD, _BACKWARD = 0, 1
# Processors of a rank for calculations and for collectives by formula beside them. The first ones
# are those of collectives, which must not wait for calculations.
_COMPUTE, _BESIDE = 255, 254


@application(
    "train",
    source="Megatron-LM (Narayanan et al. 2021, Korthikanti et al. 2022); ZeRO (Rajbhandari et al. "
    "2020)",
    small={"buckets": 2, "sequence": 64},
)
def train(
    num_ranks: int,
    *,
    places: Places,
    builder: WorkloadBuilder,
    model: str = "llama3-8b",
    dp: int | None = None,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    zero: int = 1,
    micro_batch: int = 1,
    global_batch: int | None = None,
    sequence: int | None = None,
    chunks: int = 1,
    buckets: int | None = None,
    overlap: bool = True,
    flops: float | None = None,
    efficiency: float = 0.6,
) -> Workload:
    """Train a transformer for one step: all microbatches of a batch, and their gradients.

    Rank t + tp (d + dp s) has part t of the tensors of stage s, and sees part d of the data. Ranks
    of a tensor-parallel group gather and reduce-scatter the activations of each layer (sequence
    parallelism), stages run the 1F1B schedule, and the ranks with equal parameters reduce their
    gradients in buckets. Calculations take their operations divided by `flops` and `efficiency`.

    Parameters
    ----------
    num_ranks
        Number of ranks, one for each GPU.
    model
        Name of a published model: its sizes are in the documentation.
    dp, tp, pp
        Data-parallel copies, parts of each tensor, and stages of the pipeline; their product is the
        number of ranks. If `dp` is left out, it follows from the others.
    ep
        Number of consecutive ranks of a stage that share the experts of a layer; with 1, experts
        are divided as other tensors are.
    zero
        What data-parallel ranks divide (ZeRO): 0 nothing, 1 the optimizer's state, 2 also
        gradients, 3 also parameters. With 0, they all-reduce gradients. With 1 and 2 they
        reduce-scatter gradients, at the last microbatch or at each one, and gather parameters at
        the begin of the step. With 3 they gather parameters before each use.
    micro_batch
        Sequences of a microbatch.
    global_batch
        Sequences of a step; if left out, four microbatches for each stage and copy.
    sequence
        Tokens of a sequence; if left out, as the model was trained.
    chunks
        Parts of the model on each stage (interleaved 1F1B); needs whole rounds of microbatches.
    buckets
        Buckets of a chunk's parameters; if left out, one for each layer, at most 32.
    overlap
        Gather parameters and reduce gradients beside calculations; else before and after them.
    flops
        Operations per second of a GPU; if left out, the dense BF16 rate of the machine's GPU, or of
        the H100 if the machines have no model.
    efficiency
        Part of `flops` that calculations reach, from 0 to 1.
    """
    at_least(1, dp=dp, tp=tp, pp=pp, ep=ep, micro_batch=micro_batch, global_batch=global_batch)
    at_least(1, sequence=sequence, chunks=chunks, buckets=buckets)
    need(0 <= zero <= 3, f"zero must be 0 to 3, not {zero}")
    need(0 < efficiency <= 1, f"efficiency must be above 0 and at most 1, not {efficiency}")
    need(flops is None or 0 < flops < float("inf"), f"flops must be above 0, not {flops}")
    sizes = transformer(model)
    copies, rest = divmod(num_ranks, tp * pp)
    if rest or dp not in (None, copies):
        given = "" if dp is None else f" and dp={dp}"
        raise NotApplicable(f"{num_ranks} ranks cannot be divided by tp={tp}, pp={pp}{given}")
    if sizes.heads % tp:
        raise NotApplicable(f"the {sizes.heads} heads of {model} cannot be divided by tp={tp}")
    batch = 4 * pp * copies * micro_batch if global_batch is None else global_batch
    rounds, rest = divmod(batch, copies * micro_batch)
    if rest:
        raise NotApplicable(
            f"{batch} sequences cannot be divided among {copies} copies of the model in "
            f"microbatches of {micro_batch}"
        )
    if chunks > 1 and (pp == 1 or rounds % pp):
        raise NotApplicable(
            f"{chunks} chunks need several stages and a multiple of them as microbatches; on "
            f"{num_ranks} ranks there are pp={pp} stages and {rounds} microbatches"
        )
    if pp * chunks > sizes.layers:
        raise NotApplicable(f"{model} has {sizes.layers} layers, fewer than {pp} x {chunks} stages")
    if ep > 1 and (not sizes.experts or sizes.experts % ep or copies * tp % ep):
        raise NotApplicable(
            f"the {sizes.experts} experts of {model} and the {copies * tp} ranks of a stage cannot "
            f"be shared by groups of ep={ep}"
        )
    peak = _peak(places) if flops is None else flops
    plan = _Plan(
        sizes, copies, tp, pp, ep, zero, rounds, micro_batch * (sequence or sizes.context),
        sequence or sizes.context, chunks, buckets, overlap, peak * efficiency / 1e9,
    )  # fmt: skip
    stages = [_Stage(builder, plan, places, stage) for stage in range(pp)]
    for each in stages:
        each.step()
    if any(each.alone for each in stages):
        builder.notes.append(
            "collectives within a machine are calculations of the time of a ring on its scale-up "
            "network, which other traffic there does not slow"
        )
    tokens = batch * plan.sequence
    flop = tokens * sizes.step_flop(plan.sequence)
    builder.notes.append(
        f"{model}: {sizes.parameters():,} parameters; a step of {tokens:,} tokens in {rounds} "
        f"microbatches has {flop:.4g} operations, {flop / peak / num_ranks * 1e3:.4g} ms at "
        f"{peak / 1e12:.4g} TFLOP/s for each of {num_ranks} GPUs"
    )
    return replace(builder.build(), step=TrainingStep(tokens, flop / peak / num_ranks * 1e9))


def _peak(places: Places) -> float:
    """Return the operations per second of the GPU of the machines."""
    name = "h100" if places.model is None else places.model.name
    for gpu, peak in PEAK_FLOPS.items():
        if gpu in name:
            return peak
    raise NotApplicable(f"the speed of the GPUs of {name} is not known; give flops")


@dataclass(eq=False)
class _Bucket:
    """Consecutive layers of a chunk whose parameters are gathered and reduced together.

    `last`: whether the output layer is among them. `dense`, `experts`: parameters of a rank that
    data-parallel ranks have in common, and those that ranks with the same experts have in common.
    `ready`: for each gathering that no use has awaited yet, the operations that end it.
    """

    layers: list[int]
    last: bool
    dense: int
    experts: int
    ready: list[Ints] = field(default_factory=list)


@dataclass(frozen=True)
class _Plan:
    """The options of `train`; `tokens`: tokens of a microbatch; `speed`: operations in a ns."""

    model: Transformer
    dp: int
    tp: int
    pp: int
    ep: int
    zero: int
    microbatches: int
    tokens: int
    sequence: int
    chunks: int
    buckets: int | None
    overlap: bool
    speed: float

    def layers(self, stage: int, chunk: int) -> range:
        """Return the layers of a chunk; the middle chunks have one more than the others."""
        parts = self.pp * self.chunks
        each, more = divmod(self.model.layers, parts)
        first = (parts - more) // 2
        at = chunk * self.pp + stage
        begin = at * each + min(max(at - first, 0), more)
        return range(begin, begin + each + (first <= at < first + more))

    def buckets_of(self, stage: int, chunk: int) -> list[_Bucket]:
        """Return the buckets of a chunk, in order of its layers."""
        model, layers = self.model, self.layers(stage, chunk)
        found = []
        for some in np.array_split(layers, min(self.buckets or _BUCKETS, len(layers))):
            mine: list[int] = some.tolist()
            last = mine[-1] == model.layers - 1
            dense = sum(map(model.dense, mine)) + last * model.head
            dense += (mine[0] == 0) * model.embedding
            experts = sum(map(model.has_experts, mine)) * model.experts * model.expert
            if self.ep == 1:
                dense, experts = dense + experts, 0
            found.append(_Bucket(mine, last, -(-dense // self.tp), experts // self.ep))
        return found


class _Stage:
    """The programs of the ranks of a stage.

    Calculations and what they wait for follow each other. Parameters and gradients have streams of
    their own beside these if they overlap.
    """

    def __init__(self, builder: WorkloadBuilder, plan: _Plan, places: Places, stage: int):
        self._builder, self._plan, self._places, self._stage = builder, plan, places, stage
        self._width = plan.tp * plan.dp
        self._ranks = all_ranks(builder)[stage * self._width :][: self._width]
        self._tensor = self._ranks.reshape(plan.dp, plan.tp)
        self._sharing = self._ranks.reshape(-1, plan.ep)
        self._chunks = [plan.buckets_of(stage, chunk) for chunk in range(plan.chunks)]
        # Time of each phase that the next calculations add; the last calculations; and messages.
        self._owed: dict[str, float] = {}
        self._done: Ints | None = None
        self._messages = 0.0
        #: Whether some collectives are within a machine.
        self.alone = False

    def step(self) -> None:
        """Add the passes of all microbatches, and the exchange of parameters and gradients."""
        plan = self._plan
        counts = [0, 0]
        passes = []
        for back in actions(plan.pp, plan.microbatches, "1f1b", plan.chunks)[self._stage].tolist():
            # With several chunks, a stage takes rounds of microbatches through each of them.
            chunk = counts[back] // plan.pp % plan.chunks
            passes.append((back, plan.chunks - 1 - chunk if back else chunk))
            counts[back] += 1
        uses = [bucket for back, chunk in passes for bucket in self._chunks[chunk][:: 1 - 2 * back]]
        if plan.zero < 3:
            uses = [bucket for chunk in self._chunks for bucket in chunk] if plan.zero else []
        # With all parameters divided, those of one further bucket are gathered ahead.
        ahead = plan.overlap if plan.zero == 3 else len(uses)
        waiting = iter(uses)
        for bucket in islice(waiting, ahead):
            self._gather(bucket)
        late = []
        left = [plan.microbatches] * plan.chunks
        posted = self._receive(*passes[0])
        for (back, chunk), following in zip_longest(passes, passes[1:]):
            incoming = posted
            if following and plan.chunks > 1:
                posted = self._receive(*following)
            if incoming is not None:
                self._builder.wait(self._ranks, incoming)
            left[chunk] -= back
            for bucket in self._chunks[chunk][:: 1 - 2 * back]:
                for further in islice(waiting, 1):
                    self._gather(further)
                self._work(bucket, back)
                if back and (plan.zero > 1 or not left[chunk]):
                    late.append(bucket)
                if plan.overlap or plan.zero > 1:
                    while late:
                        self._reduce(late.pop())
            self._send(back, chunk)
            if following and plan.chunks == 1:
                posted = self._receive(*following)
        for bucket in late:
            self._reduce(bucket)

    # -- the pipeline ------------------------------------------------------------------------------

    def _shift(self, chunk: int, onwards: bool) -> int | None:
        """Return the distance from ranks to those of the next or previous chunk, if any."""
        plan, last = self._plan, self._plan.pp - 1
        edge, end = (last, plan.chunks - 1) if onwards else (0, 0)
        if self._stage != edge:
            return self._width if onwards else -self._width
        if chunk == end or not last:
            return None
        return -last * self._width if onwards else last * self._width

    def _receive(self, back: int, chunk: int) -> Ints | None:
        """Post the receive of a pass after the last calculation, and return the operations."""
        return self._message(Kind.RECV, back, self._shift(chunk, back == _BACKWARD))

    def _send(self, back: int, chunk: int) -> None:
        """Send the result of a pass after the last calculation."""
        self._message(Kind.SEND, back, self._shift(chunk, back == _FORWARD))

    def _message(self, kind: Kind, back: int, shift: int | None) -> Ints | None:
        if shift is None:
            return None
        plan = self._plan
        self._builder.phase("pipeline")
        ops = self._builder.operations(
            self._ranks, kind, peer=self._ranks + shift, tag=back,
            size_bytes=-(-plan.tokens * plan.model.hidden * _BF16 // plan.tp),
        )  # fmt: skip
        if self._done is not None:
            self._builder.requires(ops, self._done)
        self._count(self._width * (kind == Kind.SEND))
        return ops

    # -- calculations ------------------------------------------------------------------------------

    def _work(self, bucket: _Bucket, back: int) -> None:
        """Add the calculations of a microbatch with a bucket's parameters, and their exchanges."""
        plan, model, builder = self._plan, self._plan.model, self._builder
        if bucket.ready:
            builder.wait(self._ranks, bucket.ready.pop(0))
        name = "backward" if back else "forward"
        own = plan.tokens * model.hidden * _BF16 // plan.tp
        to_each = own * model.active // plan.ep
        for layer in bucket.layers:
            shared = plan.ep > 1 and model.has_experts(layer)
            pairs = 1 + (not shared or model.shared > 0)
            for _ in range(pairs):
                self._exchange("tensor parallel", "allgather", self._tensor, own)
                self._exchange("tensor parallel", "reduce-scatter", self._tensor, own)
            for _ in range(2 * shared):
                self._exchange("expert parallel", "alltoall", self._sharing, to_each)
            flop = model.layer_flop(layer, plan.sequence)
            self._owe(name, flop * (1 + back) * plan.tokens / plan.tp / plan.speed)
        if bucket.last:
            self._owe(name, model.head_flop * (1 + back) * plan.tokens / plan.tp / plan.speed)
        self._calculate()

    def _owe(self, phase: str, time_ns: float) -> None:
        self._owed[phase] = self._owed.get(phase, 0.0) + time_ns

    def _calculate(self) -> None:
        """Add the owed times as calculations."""
        for phase, time_ns in self._owed.items():
            self._builder.phase(phase)
            self._done = self._builder.calc(self._ranks, time_ns, cpu=_COMPUTE)
        self._owed.clear()

    def _exchange(self, phase: str, name: Collective, groups: Ints, block: int) -> None:
        """Add a collective between calculations; `block`: bytes of a rank, or for each of them."""
        time_ns = self._alone_ns(groups, block)
        if time_ns is not None:
            self._owe(phase, time_ns)
            return
        self._calculate()
        self._collective(phase, name, groups, block)

    # -- collectives -------------------------------------------------------------------------------

    def _gather(self, bucket: _Bucket) -> None:
        """Gather the parameters of a bucket."""
        with self._beside("parameters"):
            if self._plan.zero == 3 and self._done is not None:
                self._builder.wait(self._ranks, self._done)
            self._share("parameters", "allgather", bucket, _BF16)
            if self._plan.overlap:
                bucket.ready.append(self._builder.calc(self._ranks, 0.0))

    def _reduce(self, bucket: _Bucket) -> None:
        """Reduce the gradients of a bucket, which the last calculation has completed."""
        with self._beside("gradients"):
            assert self._done is not None
            self._builder.wait(self._ranks, self._done)
            name: Collective = "reduce-scatter" if self._plan.zero else "allreduce"
            self._share("gradients", name, bucket, _GRADIENT)

    def _beside(self, name: str) -> AbstractContextManager[None]:
        return self._builder.stream(name) if self._plan.overlap else nullcontext()

    def _share(self, phase: str, name: Collective, bucket: _Bucket, each_bytes: int) -> None:
        """Add a collective of the ranks that have a bucket's parameters in common."""
        for groups, parameters in (
            (self._tensor.T, bucket.dense), (self._sharing.T, bucket.experts),
        ):  # fmt: skip
            block = -(-parameters * each_bytes // groups.shape[1])
            time_ns = self._alone_ns(groups, block) if block else 0.0
            self._builder.phase(phase)
            if time_ns is None:
                self._collective(phase, name, groups, block)
            elif time_ns:
                time_ns *= 1 + (name == "allreduce")
                self._builder.calc(self._ranks, time_ns, cpu=_BESIDE)

    def _alone_ns(self, groups: Ints, block: int) -> float | None:
        """Return the time of a ring of blocks within machines by formula; None for messages."""
        model, machine, n = self._places.model, self._places.machine[groups], groups.shape[1]
        if n == 1:
            return 0.0
        if model is None or not model.scale_up_gbps or np.any(machine != machine[:, :1]):
            return None
        self.alone = True
        latency_ns = model.scale_up_latency_ns + _SWITCH_NS
        return float((n - 1) * (block * 8 / model.scale_up_gbps + latency_ns))

    def _collective(self, phase: str, name: Collective, groups: Ints, block: int) -> None:
        """Add a collective of messages: NCCL's if the ranks of a group share machines, else rings.

        A ring in the order of ranks would use one adapter of each machine.
        """
        builder, before, whole = self._builder, self._builder.num_ops, block * groups.shape[1]
        builder.phase(phase)
        machines = len(np.unique(self._places.machine[groups[0]]))
        if self._places.model is not None and 1 < machines < groups.shape[1]:
            add_collective(builder, name, groups, self._places, whole)
        elif name == "alltoall":
            collective_on(builder, name, groups, block)
        else:
            size = whole if name == "allreduce" else block
            collective_on(builder, name, groups, size, algorithm="ring")
        self._count((builder.num_ops - before) / 2)

    def _count(self, messages: float) -> None:
        """Count messages; refuse too many, as other stages have about as many."""
        self._messages += messages
        check_messages(self._builder, self._messages * self._plan.pp)
