"""NCCL's tuning model: channels, and the choice of algorithm and protocol by estimated time.

Tables and formulas are those of NCCL 2.29; docs/nccl.md lists the file of each. The search of
channels is that of machines in which every processor reaches every other equally well (NVSwitch, or
one PCIe switch). Times are in microseconds, rates in GB/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError, NotApplicable
from weft.workload.nccl.messages import Hop
from weft.workload.nccl.shape import Shape

VERSION = "2.29"

Collective = Literal[
    "allreduce", "allgather", "reduce-scatter", "broadcast", "reduce", "alltoall", "sendrecv"
]
Algorithm = Literal["auto", "ring", "tree", "nvls", "nvls-tree", "collnet-direct", "collnet-chain"]
Protocol = Literal["auto", "ll", "ll128", "simple"]
Architecture = Literal["auto", "volta", "ampere", "hopper", "blackwell"]

PROTOCOLS = ("ll", "ll128", "simple")
_SIMPLE = 2
_ARCHITECTURES = ("volta", "ampere", "hopper", "blackwell")
#: Rate of one NVLink by architecture.
_NVLINK = {"volta": 20.0, "ampere": 20.0, "hopper": 20.6, "blackwell": 40.1}
_BASE = {
    "tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4), "nvls": (0, 0, 0), "nvls-tree": (0, 0, 0),
    "pat": (8.0, 8.0, 8.0), "collnet-direct": (0, 0, 0),
}  # fmt: skip
#: Latency of a hop by kind of link, algorithm and protocol.
_HOP = {
    "nvlink": {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4), "nvls": (0, 0, 25.0),
               "nvls-tree": (0, 0, 25.0), "pat": (0, 0, 4.0), "collnet-direct": (0, 0, 3.7)},
    "pcie": {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7), "nvls": (0, 0, 0),
             "nvls-tree": (0, 0, 0), "pat": (0, 0, 4.0), "collnet-direct": (0, 0, 3.7)},
    "net": {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0), "nvls": (0, 0, 18.0),
            "nvls-tree": (0, 0, 20.9), "pat": (0, 0, 14.0), "collnet-direct": (0, 0, 31.0)},
}  # fmt: skip
#: Limits by architecture, and by one, two or more machines.
_LL_MAX = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))
_RING_LL128_MAX = (20.0, 20.0, 36.7, 40.0)
_TREE_LL128_MAX = ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0))
_TREE_MAX = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0))
_NVLS_TREE_MAX = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5), (0.0, 96.0, 80.0))
_NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)
#: Correction of trees by protocol, for powers of two from 64 B.
_TREE_CORRECTION = (
    (1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1),
    (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9),
)  # fmt: skip
#: Candidate rates of a channel within a machine and between machines.
_SPEEDS = {
    "old": ((40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
            (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12)),
    "hopper": ((60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
               (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12)),
    "blackwell": ((90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
                  (96, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24,
                   .12)),
}  # fmt: skip
MAX_CHANNELS = 64
#: Halves of an all-reduce.
_HALVES = ("allgather", "reduce-scatter")
_STEPS = 8  # NCCL_STEPS, slots of a channel's buffer
_LL128_BUFFER = 120 * 640 * _STEPS * 8
_LL_BUFFER = 8 * 512 * _STEPS * 16
#: Data that the threads of a block pass on at once: 8 bytes a thread of LL; of LL128 8 words of 8
#: bytes a thread, 15 of 16 of them data (src/device/prims_ll.h, prims_ll128.h).
_LL_SLICE = 512 * 8
_LL128_SLICE = 640 * 8 * 8 * 15 // 16
_NVLS_CHUNK = 128 * 1024
#: Chunks of NVLS in collectives with less data than so many chunks of all channels and heads.
_NVLS_LIMITS = {
    "nvls": ((64, 65536), (8, 32768), (2, 16384)), "nvls-tree": ((4, 65536), (1, 32768))
}  # fmt: skip
#: Rate for which NCCL provides a channel of sends and receives (NCCL_P2P_PER_CHANNEL_NET_BW).
P2P_CHANNEL = 14.0
P2P_CHUNK = 128 * 1024
#: Peers that one channel serves at once (NCCL_MAX_DEV_WORK_P2P_PER_BATCH).
P2P_PER_BATCH = 8


@dataclass(frozen=True)
class Options:
    """NCCL's variables and facts of machines that change a collective (docs/nccl.md).

    `net_overhead` is in nanoseconds; negative values, and 0 threads, stand for NCCL's own.
    """

    algo: Algorithm = "auto"
    proto: Protocol = "auto"
    min_channels: int = 1
    max_channels: int = MAX_CHANNELS
    nthreads: int = 0
    buffsize: int = 4 * 2**20
    pxn_disable: bool = False
    cross_nic: int = 2
    nvls_enable: bool = True
    collnet_enable: bool = False
    net_overhead: float = -1.0
    cpu: Literal["intel", "amd", "arm"] = "intel"
    architecture: Architecture = "auto"

    def check(self) -> None:
        """Refuse values that are invalid for every communicator."""
        if not 1 <= self.min_channels <= self.max_channels <= MAX_CHANNELS:
            raise InputError(
                f"{self.min_channels} to {self.max_channels} channels; expected 1 to "
                f"{MAX_CHANNELS}, and min_channels not above max_channels"
            )
        if self.nthreads and (self.nthreads % 32 or not 64 <= self.nthreads <= 640):
            raise InputError(f"nthreads is {self.nthreads}; expected a multiple of 32, 64 to 640")
        if self.cross_nic not in (0, 1, 2):
            raise InputError(f"cross_nic is {self.cross_nic}; expected 0, 1 or 2")
        if self.buffsize < 8192:
            raise InputError(f"buffsize is {self.buffsize} bytes; expected at least 8192")
        if self.algo == "collnet-chain":
            raise NotApplicable("CollNet chain is not modelled; expected collnet-direct")


@dataclass(frozen=True)
class NcclChoice:
    """Algorithm, protocol and channels of a collective.

    Point-to-point collectives have the algorithm ``p2p``.
    """

    collective: str
    algorithm: str
    protocol: str
    #: Number of channels; of a point-to-point collective, those of each peer.
    channels: int
    #: Distinct channels; further ones repeat them on the same paths.
    base: int
    #: Data of a channel in one step.
    chunk_bytes: int
    #: Data that a thread block passes on at once; 0 for half of what it has in a step.
    slice_bytes: int
    #: What was assumed.
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The choice in words."""
        each = " a peer" if self.algorithm == "p2p" else ""
        return (
            f"{self.collective}: NCCL {VERSION}, {self.algorithm}, {self.protocol}, "
            f"{self.channels} channel{'s' * (self.channels != 1)}{each}"
        )


class Tuner:
    """NCCL's view of a communicator: its channels, and times of its algorithms."""

    def __init__(self, shape: Shape, options: Options):
        options.check()
        self.shape, self.options = shape, options
        name = options.architecture
        if name == "auto":
            old = 0 < shape.inside_rate <= 300
            name = "blackwell" if shape.inside_rate > 450 else "ampere" if old else "hopper"
        self._arch, self._link_rate = _ARCHITECTURES.index(name), _NVLINK[name]
        self._scale = min(shape.machines, 3) - 1
        self._link = "nvlink" if shape.nvlink else "pcie"
        self._speeds = _SPEEDS.get(name, _SPEEDS["old"])[shape.machines > 1]
        #: Distinct channels, and those of NCCL's graph with the rate of each.
        self.base, self._graph, self._rate = self._search()
        own = 2 * self._graph
        if self._arch >= 2 and shape.machines > 1 and self._rate > 45 and own < 16:
            own *= 2
        #: Channels that NCCL makes, and those that its variables leave.
        self._own = min(MAX_CHANNELS, own)
        self.channels = self._within(self._own)
        self.heads = shape.rails if shape.machines > 1 else shape.fewest

    def _within(self, channels: int) -> int:
        """Return a number of channels within NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS."""
        return max(self.options.min_channels, min(channels, self.options.max_channels))

    def _search(self) -> tuple[int, int, float]:
        """Return the most channels times rate that adapters and the scale-up network carry.

        NCCL tries no rates below half of one with which it has found channels.
        """
        shape, best = self.shape, (1, 0.0)
        # A ring that leaves by another adapter than it enters (crossNic) spares a hop of NVLink.
        crosses = shape.nvlink and shape.machines > 1 and shape.rails > 1
        hops = shape.fewest - bool(crosses and self.options.cross_nic)
        for rate in self._speeds:
            if rate <= 0.49 * best[1]:
                break
            most = MAX_CHANNELS // 2
            if shape.fewest > 1:
                most = min(most, int(shape.inside_rate * shape.fewest / hops / rate + 1e-9))
            if shape.machines > 1:
                most = min(most, shape.rails * int(shape.adapter_rate / rate + 1e-9))
            if most * rate > best[0] * best[1]:
                best = most, float(rate)
        channels, rate = best
        if rate < 25 or (self._arch >= 2 and rate < 50 and channels > 4):
            return channels, channels, rate or float(min(self._speeds))
        double = min(2 * channels, MAX_CHANNELS // 2)  # ncclTopoDupChannels
        return channels, double, rate / ceil(double / channels)

    def _nvls_rates(self) -> tuple[float, float]:
        """Return the rates of each head within its machine and between machines; 0 for no NVLS.

        A head sends and takes its part besides those of all. The search then raises the rate
        between machines step by step, up to twice that within (search.cc, second pass).
        """
        shape, many = self.shape, self.shape.machines > 1
        able = self.options.nvls_enable and shape.reduces and _NVLS_EFFICIENCY[self._arch]
        most = shape.adapter_rate if many else float("inf")
        inside = min(shape.inside_rate / (self.heads + 1), most)
        fits = [float(rate) for rate in self._speeds[::-1] if rate <= inside]
        if not able or not fits or shape.fewest <= 2 or self.heads < 2:
            return 0.0, 0.0
        higher = [float(rate) for rate in self._speeds[::-1] if fits[-1] <= rate <= most]
        return fits[-1], next((rate for rate in higher if rate >= 2 * fits[-1]), higher[-1])

    def _hop_us(self, algorithm: str, at: int) -> tuple[float, float]:
        """Return the latency of a hop within a machine, and of one between machines."""
        alone = self.shape.machines == self.shape.size
        inside = float(_HOP[self._link][algorithm][at])
        between = float(_HOP["net"]["tree" if alone else algorithm][at])
        if algorithm == "ring" and self.shape.machines > 1:
            given = self.options.net_overhead
            post = given / 1000 if given >= 0 else 2.0 if self.options.cpu == "amd" else 1.0
            inside = max(inside, post * (3 if at == _SIMPLE else 1))
        return inside, between

    def base_ns(self, choice: NcclChoice) -> float:
        """Return the time before the first message."""
        name = "ring" if choice.algorithm == "p2p" else choice.algorithm
        return 1000 * _BASE[name][PROTOCOLS.index(choice.protocol)]

    def hops(self, choice: NcclChoice) -> tuple[Hop, Hop]:
        """Return the costs of messages within and between machines."""
        at = PROTOCOLS.index(choice.protocol)
        name = "ring" if choice.algorithm == "p2p" else choice.algorithm
        inside, between = (1000 * us for us in self._hop_us(name, at))
        if choice.algorithm in ("p2p", "collnet-direct"):
            return Hop(delay_ns=inside), Hop(delay_ns=between)
        if name.startswith("nvls"):
            # 25 us are those of a reduction in the switch and of a multicast together.
            near = 1 / _NVLS_EFFICIENCY[self._arch]
            return Hop(delay_ns=inside / 2, inflation=near), Hop(delay_ns=between)
        # With the protocol Simple, the threads of a block wait for each other in each slice; flags
        # among the data let those of the others wait only in each step.
        busy = min(inside, between)
        step, each = (0.0, busy) if at == _SIMPLE else (busy, 0.0)
        rate, wire = self._block_rate(name, at), (2.0, 128 / 120, 1.0)[at]
        return (
            Hop(step, each, rate, inside - busy, wire), Hop(step, each, rate, between - busy, wire)
        )  # fmt: skip

    def _block_rate(self, algorithm: str, at: int) -> float:
        """Return the rate of a thread block, in bytes on the link.

        NCCL's tables limit the channels of its graph, each of which two thread blocks serve. The
        only limit of rings is that with LL128; with Simple, a block copies as many bytes.
        """
        if at == 0:
            return 2 * self._ll_max() / self._own
        limit = _RING_LL128_MAX[self._arch] * 128 / 120
        if algorithm == "tree":
            limit = _TREE_LL128_MAX[self._arch][self._scale] * 128 / 120
            limit = limit if at == 1 else _TREE_MAX[self._arch][self._scale]
        return limit / 2

    def least_ns(self, choice: NcclChoice, size: int) -> NDArray[np.float64]:
        """Return the shortest time of a collective at each member, float64 [members].

        Heads of NVLS trees have a limit in NCCL's tables. NCCL counts on 14 GB/s of a channel of
        sends to the network; if peers share channels, each moves their data in turn.
        """
        shape, least = self.shape, 0.0
        rate = P2P_CHANNEL * choice.channels
        if choice.algorithm == "nvls-tree":
            steps = 2 * (shape.size - 1) / shape.size
            least = size * steps / (self.heads * _NVLS_TREE_MAX[self._arch][self._scale])
        elif choice.collective == "sendrecv":
            return np.where(shape.machine != np.roll(shape.machine, -1), size / rate, 0.0)
        elif choice.collective == "alltoall":
            outside = shape.size - np.bincount(shape.machine)[shape.machine]
            return size / shape.size * np.ceil(outside * choice.channels / self.channels) / rate
        return np.full(shape.size, least)

    def _ll_max(self) -> float:
        """Return the limit of all channels with the protocol LL."""
        row = int(self.options.cpu == "amd") if self._scale else self._arch
        return _LL_MAX[row][self._scale]

    def _bus(self, collective: str, algorithm: str, at: int) -> float:
        """Return the rate of all channels together (NCCL's busBw); 0 if there is no such thing."""
        machines, scale = self.shape.machines, self._scale
        reduces, gathers = collective == "allreduce", collective in _HALVES
        bus = self._graph * self._rate
        if algorithm.startswith("nvls"):
            inside, between = self._nvls_rates()
            exists = (reduces or (gathers and machines == 1)) and at == _SIMPLE
            if not exists or (algorithm == "nvls") != (machines == 1):
                return 0.0
            inside *= _NVLS_EFFICIENCY[self._arch] * (1 - 1 / self.heads)
            inside *= 2 if reduces else 1 - machines / self.shape.size
            between *= 2 if machines == 2 else 1
            most = _NVLS_TREE_MAX[self._arch][scale] if machines > 1 else between
            return self.heads * min(inside, between, most)
        if algorithm == "collnet-direct":
            on = self.options.collnet_enable or self.options.algo == algorithm
            if not (on and reduces and machines > 1 and at == _SIMPLE):
                return 0.0
            fits = [rate for rate in self._speeds if rate <= self.shape.adapter_rate]
            factor = (self.shape.size / machines / self.heads + 1) / 2  # processors of an adapter
            bus = self.heads * max(fits, default=min(self._speeds)) / factor
            return bus * (0.85 if self._arch >= 2 else 1.0)
        if algorithm == "pat":
            return 0.75 * bus * (gathers and machines == self.shape.size and at == _SIMPLE)
        if algorithm == "tree":
            bus = min(bus * 0.92, self._graph * _TREE_MAX[self._arch][scale]) * reduces
            if at == 0:
                bus = min(bus / 3.8, self._ll_max())
            elif at == 1:
                bus *= 7 / 9 if machines == 1 else 120 / 128
                bus = min(bus, self._graph * _TREE_LL128_MAX[self._arch][scale])
            # Machines with one member have trees of the pattern TREE.
            return bus * (0.85 if self.shape.fewest == 1 else 1.0)
        if at == 0:
            return min(self._ll_max(), bus / 2)
        if at == 1:
            return min(bus * 0.92, self._graph * _RING_LL128_MAX[self._arch])
        return bus

    def _bandwidth(self, collective: str, algorithm: str, at: int) -> float:
        """Return the data per time of an algorithm; 0 if it does not exist."""
        n, bus = self.shape.size, self._bus(collective, algorithm, at)
        if algorithm in ("tree", "collnet-direct"):
            return bus / 2
        if algorithm != "ring" and collective in _HALVES:
            return bus
        return (
            bus * n / {"allreduce": 2 * (n - 1), **dict.fromkeys(_HALVES, n - 1)}.get(collective, n)
        )

    def _latency(self, collective: str, algorithm: str, at: int) -> float:
        n, machines = self.shape.size, self.shape.machines
        inside, between = self._hop_us(algorithm, at)
        base, levels = _BASE[algorithm][at], machines.bit_length() - 1
        if algorithm == "ring" and collective in ("broadcast", "reduce"):
            row = _HOP["net" if machines > 1 else self._link]
            if machines == 1 or self.shape.rails == 1:  # all channels are alike (sameChannels)
                return base + row["ring"][at]
            return base + n * row["tree" if at == _SIMPLE else "ring"][at]
        if algorithm == "ring":
            twice = 2 if collective == "allreduce" else 1
            return base + twice * ((n - machines) * inside + (machines - 1) * between)
        if algorithm == "tree":
            return base + 2 * ((n // machines - 1) * inside + levels * between)
        if algorithm == "collnet-direct":
            others = n // machines - 1
            return base + 2 * (min(1, others) * inside + 0.4 * others) + between
        if algorithm == "pat":
            return base + levels * between / 3.5 + n * 2.8
        return base + inside + (2 * levels * between if algorithm == "nvls-tree" else 0)

    def time_us(self, collective: str, algorithm: str, protocol: str, size: int) -> float | None:
        """Return NCCL's estimate of the time of a collective; None if it cannot run so."""
        at = PROTOCOLS.index(protocol)
        bandwidth = self._bandwidth(collective, algorithm, at)
        if bandwidth <= 0 or (at == 1 and self.shape.fewest > 1 and self._link == "pcie"):
            return None
        latency = self._latency(collective, algorithm, at)
        power = max(size >> 6, 1).bit_length() - 1
        if algorithm == "tree" and power < 23:
            bandwidth *= _TREE_CORRECTION[at][power]
        plateau = size // (self.channels * self.shape.size) >= 64 and self.shape.machines > 1
        if plateau and (collective, algorithm, at) == ("allreduce", "ring", _SIMPLE):
            latency *= 1.4 if self._arch else 1.9
        return latency + size / (1000 * bandwidth)

    def choose(self, collective: str, size: int) -> NcclChoice:
        """Return the algorithm, protocol and channels of a collective.

        `size`: bytes as NCCL counts them, the larger of what a rank gives and takes.
        """
        algo, proto = self.options.algo, self.options.proto
        if collective in ("alltoall", "sendrecv"):
            if algo != "auto" or proto not in ("auto", "simple"):
                raise NotApplicable(
                    f"{collective} is point-to-point: no algorithm, and only the protocol simple"
                )
            channels = self._p2p_channels()
            return NcclChoice(collective, "p2p", "simple", channels, 1, P2P_CHUNK, P2P_CHUNK)
        times = {
            (a, p): time
            for a in _BASE
            for p in PROTOCOLS
            if (time := self.time_us(collective, a, p, size)) is not None
        }
        asked = [key for key in times if algo in ("auto", key[0]) and proto in ("auto", key[1])]
        missing = ("pat", "nvls") if collective in _HALVES else ()
        known = [key for key in asked if key[0] not in missing]
        if not known:
            able = ", ".join(f"{a} with {p}" for a, p in times if a not in missing)
            raise NotApplicable(
                f"NCCL {VERSION} has no {collective} with algo={algo} and proto={proto} on these "
                f"machines; expected {able}"
            )
        algorithm, protocol = min(known, key=lambda key: times[key])
        notes: tuple[str, ...] = ()
        if algorithm == "collnet-direct":
            notes = (
                "CollNet: switches reduce at the rate of their cables, also without a list of "
                "aggregation nodes in the fabric",
            )
        first = min(asked, key=lambda key: times[key])[0]
        if first in missing:
            notes = (
                f"{collective} of {size:,} bytes: NCCL would take {first.upper()}, which is not "
                f"modelled; {algorithm} is what it takes with NCCL_{first.upper()}_ENABLE=0",
            )
        channels = self._used_channels(algorithm, protocol, size)
        chunk, at_once = self._chunk(collective, algorithm, protocol, size, channels)
        base = self.heads if algorithm.startswith("nvls") else self.base
        base = min(base, channels)
        return NcclChoice(collective, algorithm, protocol, channels, base, chunk, at_once, notes)

    def _used_channels(self, algorithm: str, protocol: str, size: int) -> int:
        """Return the channels of a collective: fewer if each would have little to do."""
        if algorithm.startswith("nvls"):
            new = 32 if self.shape.machines > 1 else 24
            return self._within(new if self._arch == 3 else 16)
        threads, enough = {"ll": (512, 8), "ll128": (640, 8), "simple": (512, 64)}[protocol]
        if (algorithm, protocol) == ("ring", "simple") and self._graph * self._rate <= 12:
            threads = 256
        if protocol != "ll128":
            threads = min(self.options.nthreads or threads, 512)
        if (algorithm, protocol) == ("ring", "ll"):
            enough *= self.shape.size
        if algorithm == "collnet-direct":
            enough *= self.heads
        return max(1, min(self.channels, size // (threads * enough)))

    def _chunk(
        self, collective: str, algorithm: str, protocol: str, size: int, channels: int
    ) -> tuple[int, int]:
        """Return the data of a channel in one step, and those that it passes on at once."""
        step, machines = self.options.buffsize // _STEPS, self.shape.machines
        if protocol == "ll":
            return _LL_BUFFER // _STEPS // 2, _LL_SLICE
        if protocol == "ll128":
            chunk = _LL128_BUFFER // _STEPS * 15 // 16
            levels = machines.bit_length() + 0.1 * self.shape.size / machines
            for times, least in ((64, 131072), (16, 32768)) if algorithm == "tree" else ():
                enough = levels * times * machines / self.shape.size
                while chunk > least and size // (channels * chunk) < enough:
                    chunk //= 2
            return chunk, _LL128_SLICE
        if algorithm == "collnet-direct":
            for steps, least in ((128, 131072), (16, 65536), (16, 32768)):  # depth of 2
                while step > least and size // (channels * self.heads * step) < steps:
                    step //= 2
            return step, step
        if algorithm.startswith("nvls"):
            chunk, parts = min(_NVLS_CHUNK, step), channels * self.heads
            if machines >= 4:
                chunk = min(chunk, 65536)
            for times, least in _NVLS_LIMITS[algorithm]:
                if size < times * parts * chunk:
                    chunk = min(chunk, least)
            return chunk, chunk
        if algorithm == "ring" and collective not in ("broadcast", "reduce"):
            return 4 * step, 0
        return step, step

    def _p2p_channels(self) -> int:
        """Return the channels of a peer (ncclTopoComputeP2pChannels)."""
        shape, most = self.shape, _power_up(self.channels)
        links = int(shape.inside_rate / self._link_rate + 1e-9) if shape.nvlink else 1
        inside = 2 * max(1, links) if shape.machines < shape.size else MAX_CHANNELS
        if shape.machines == 1:
            return min(most, _power_up(inside))
        each = _power_up(min(inside, max(1, ceil(int(shape.adapter_rate) / P2P_CHANNEL))))
        while each > 1 and each * ceil(shape.size / P2P_PER_BATCH) > most:
            each //= 2
        return min(each, most)


def _power_up(value: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (value - 1).bit_length()
