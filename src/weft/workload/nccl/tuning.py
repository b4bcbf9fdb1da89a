"""NCCL's tuning model: channels, and the choice of algorithm and protocol by estimated time.

The tables and formulas are those of NCCL 2.29: ``src/graph/tuning.cc`` (latencies, bandwidths,
times), ``src/graph/topo.h`` (rate of an NVLink), ``src/graph/search.cc`` (rates of channels),
``src/graph/connect.cc`` (number of channels) and ``src/enqueue.cc`` (chunks, and channels of small
collectives). The search of channels is that of machines in which every processor reaches every
other equally well (NVSwitch, or one PCIe switch). Times are in microseconds, rates in GB/s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Literal

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
_ARCHITECTURES = ("volta", "ampere", "hopper", "blackwell")
#: Rate of one NVLink by architecture.
_NVLINK = {"volta": 20.0, "ampere": 20.0, "hopper": 20.6, "blackwell": 40.1}
_BASE = {
    "tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4), "nvls": (0, 0, 0), "nvls-tree": (0, 0, 0),
    "pat": (8.0, 8.0, 8.0),
}  # fmt: skip
#: Latency of a hop by kind of link, algorithm and protocol.
_HOP = {
    "nvlink": {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4), "nvls": (0, 0, 25.0),
               "nvls-tree": (0, 0, 25.0), "pat": (0, 0, 4.0)},
    "pcie": {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7), "nvls": (0, 0, 0),
             "nvls-tree": (0, 0, 0), "pat": (0, 0, 4.0)},
    "net": {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0), "nvls": (0, 0, 18.0),
            "nvls-tree": (0, 0, 20.9), "pat": (0, 0, 14.0)},
}  # fmt: skip
#: Limits by architecture, and by one, two or more machines.
_LL_MAX = ((39.0, 39.0, 20.4), (87.7, 22.5, 19.0), (141.0, 45.0, 35.0), (282.0, 90.0, 70.0))
_RING_LL128_MAX = ((20.0,) * 3, (20.0,) * 3, (36.7,) * 3, (40.0,) * 3)
_TREE_LL128_MAX = ((20.0,) * 3, (20.0,) * 3, (36.7, 36.7, 29.0), (55.6, 31.67, 20.0))
_TREE_MAX = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (38.7, 41.4, 36.0), (70.0, 42.8, 24.0))
_NVLS_TREE_MAX = ((26.5, 18.5, 10.0), (24.0, 23.6, 17.8), (0.0, 57.7, 45.5), (0.0, 96.0, 80.0))
_NVLS_EFFICIENCY = (0.0, 0.0, 0.85, 0.74)
_NVLS_CHANNELS = 16
#: Correction of trees by protocol, for powers of two from 64 B.
_TREE_CORRECTION = {
    "ll": (1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1),
    "ll128": (1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1),
    "simple": (.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8,
               .9, .9),
}  # fmt: skip
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
_STEPS = 8  # NCCL_STEPS, slots of a channel's buffer
_LL128_BUFFER = 120 * 640 * _STEPS * 8
_LL_BUFFER = 8 * 512 * _STEPS * 16
#: Data that the threads of a block pass on at once: 8 bytes a thread of LL; of LL128 8 words of 8
#: bytes a thread, 15 of 16 of them data (src/device/prims_ll.h, prims_ll128.h).
_LL_SLICE = 512 * 8
_LL128_SLICE = 640 * 8 * 8 * 15 // 16
_NVLS_CHUNK = 128 * 1024
#: Rate for which NCCL provides one channel of point-to-point messages (NCCL_P2P_PER_CHANNEL_NET_BW).
P2P_CHANNEL = 14.0
P2P_CHUNK = 128 * 1024
#: Peers that one channel serves at once (NCCL_MAX_DEV_WORK_P2P_PER_BATCH).
P2P_PER_BATCH = 8


@dataclass(frozen=True)
class Options:
    """NCCL's variables and facts of machines that change a collective.

    Parameters
    ----------
    algo, proto
        Algorithm and protocol (NCCL_ALGO, NCCL_PROTO); ``auto`` takes those that NCCL's tuning
        model chooses.
    min_channels, max_channels
        Bounds of the number of channels (NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS).
    nthreads
        Threads of a block (NCCL_NTHREADS), which decide when a small collective takes fewer
        channels; 0 for NCCL's own.
    buffsize
        Bytes of a channel's buffer with the protocol Simple (NCCL_BUFFSIZE).
    pxn_disable
        Send through the adapter of the sender only, not through that of another processor that is
        near the adapter (NCCL_PXN_DISABLE).
    cross_nic
        Whether a ring may leave a machine through another adapter than the one by which it enters:
        0 no, 1 yes, 2 only if it cannot avoid it (NCCL_CROSS_NIC).
    nvls_enable
        Whether to reduce and multicast in the switches of a machine (NCCL_NVLS_ENABLE).
    collnet_enable
        Whether to reduce in switches between machines (NCCL_COLLNET_ENABLE); refused, since no
        level has such switches.
    net_overhead
        Time that a message takes the thread that posts it (NCCL_NET_OVERHEAD); negative for
        NCCL's own: 1 us, 2 us on AMD.
    cpu
        Maker of the processors of the machines.
    architecture
        Architecture of the GPUs; ``auto`` takes it from the rate of the scale-up network.
    """

    algo: Algorithm = "auto"
    proto: Protocol = "auto"
    min_channels: int = 1
    max_channels: int = MAX_CHANNELS
    nthreads: int = 0
    buffsize: int = 4 * 2**20
    pxn_disable: bool = False
    cross_nic: Literal[0, 1, 2] = 2
    nvls_enable: bool = True
    collnet_enable: bool = False
    net_overhead: float = -1.0
    cpu: Literal["intel", "amd", "arm"] = "intel"
    architecture: Architecture = "auto"

    def check(self) -> None:
        """Refuse values that are invalid for every communicator.

        Raises
        ------
        InputError
            If a value is out of its range.
        NotApplicable
            If CollNet is enabled or its algorithm is asked for.
        """
        if not 1 <= self.min_channels <= self.max_channels <= MAX_CHANNELS:
            raise InputError(
                f"{self.min_channels} to {self.max_channels} channels; expected at least 1, at "
                f"most {MAX_CHANNELS}, and min_channels not above max_channels"
            )
        if self.nthreads and (self.nthreads % 32 or not 64 <= self.nthreads <= 640):
            raise InputError(f"nthreads is {self.nthreads}; expected a multiple of 32, 64 to 640")
        if self.buffsize < 8192:
            raise InputError(f"buffsize is {self.buffsize} bytes; expected at least 8192")
        if self.collnet_enable or self.algo.startswith("collnet"):
            raise NotApplicable(
                "CollNet reduces in switches between machines (SHARP), which no level models; "
                "expected ring, tree, nvls or nvls-tree"
            )


@dataclass(frozen=True)
class Graph:
    """Channels that NCCL's search finds, and the rate of each."""

    channels: int
    rate: float


@dataclass(frozen=True)
class Choice:
    """Algorithm, protocol and channels of a collective.

    Parameters
    ----------
    collective, algorithm, protocol
        Names; point-to-point collectives have the algorithm ``p2p``.
    channels
        Number of channels; of a point-to-point collective, those of each peer.
    base
        Distinct channels; further ones repeat them on the same paths.
    chunk_bytes
        Data of a channel in one step.
    slice_bytes
        Data that a thread block passes on at once; 0 for half of what it has in a step.
    times_us
        NCCL's estimate for each algorithm and protocol that it could take.
    notes
        What was assumed.
    """

    collective: str
    algorithm: str
    protocol: str
    channels: int
    base: int
    chunk_bytes: int
    slice_bytes: int
    times_us: dict[tuple[str, str], float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The choice in words."""
        return (
            f"{self.collective}: NCCL {VERSION}, {self.algorithm}, {self.protocol}, "
            f"{self.channels} channel{'s' * (self.channels != 1)}"
            f"{' a peer' * (self.algorithm == 'p2p')}"
        )


class Tuner:
    """NCCL's view of a communicator: its channels, and times of its algorithms.

    Parameters
    ----------
    shape
        Members by machine.
    options
        NCCL's variables.
    """

    def __init__(self, shape: Shape, options: Options):
        options.check()
        self.shape = shape
        self.options = options
        name = options.architecture
        if name == "auto":
            old = 0 < shape.inside_rate <= 300
            name = "blackwell" if shape.inside_rate > 450 else "ampere" if old else "hopper"
        self.architecture = name
        self._index = _ARCHITECTURES.index(name)
        self._inside, self._net = shape.inside_rate, shape.adapter_rate
        self._link = "nvlink" if shape.nvlink else "pcie"
        self._speeds = _SPEEDS.get(name, _SPEEDS["old"])
        found = self._search()
        #: Distinct channels, before repetition.
        self.base = found.channels
        self.graph = self._repeat(found)
        channels = min(MAX_CHANNELS, 2 * self.graph.channels)
        self.channels = max(min(channels, options.max_channels), options.min_channels)
        self.heads = shape.rails if shape.machines > 1 else shape.fewest

    def _search(self) -> Graph:
        """Return the most channels times rate that adapters and the scale-up network carry."""
        shape, best = self.shape, Graph(0, 0.0)
        for rate in self._speeds[shape.machines > 1]:
            most = int(self._inside / rate + 1e-9) if shape.fewest > 1 else MAX_CHANNELS
            if shape.machines > 1:
                most = min(most, shape.rails * int(self._net / rate + 1e-9))
            most = min(most, MAX_CHANNELS // 2)
            if most * rate > best.channels * best.rate:
                best = Graph(most, rate)
        return best if best.channels else Graph(1, min(self._speeds[shape.machines > 1]))

    def _repeat(self, found: Graph) -> Graph:
        """Return a graph whose channels are doubled if each is fast (ncclTopoDupChannels)."""
        if found.rate < 25 or (self._index >= 2 and found.rate < 50 and found.channels > 4):
            return found
        channels = min(2 * found.channels, MAX_CHANNELS // 2)
        return Graph(channels, found.rate / ceil(channels / found.channels))

    def _nvls(self) -> Graph | None:
        """Return the graph of NVLS: a head sends and receives its part besides those of all."""
        shape = self.shape
        able = self.options.nvls_enable and shape.reduces and _NVLS_EFFICIENCY[self._index]
        if not able or shape.fewest <= 2 or self.heads < 2:
            return None
        limit = self._inside / (self.heads + 1)
        if shape.machines > 1:
            limit = min(limit, self._net)
        rates = [rate for rate in self._speeds[shape.machines > 1] if rate <= limit]
        return Graph(self.heads, rates[0]) if rates else None

    @property
    def net_overhead_us(self) -> float:
        """Time to post one message to an adapter."""
        given = self.options.net_overhead
        return given / 1000 if given >= 0 else 2.0 if self.options.cpu == "amd" else 1.0

    def hop_us(self, algorithm: str, protocol: str) -> tuple[float, float]:
        """Return the latency of a hop within a machine, and of one between machines."""
        at = PROTOCOLS.index(protocol)
        alone = self.shape.machines == self.shape.size
        inside = float(_HOP[self._link][algorithm][at])
        between = float(_HOP["net"]["tree" if alone else algorithm][at])
        if algorithm == "ring" and self.shape.machines > 1:
            inside = max(inside, self.net_overhead_us * (3 if protocol == "simple" else 1))
        return inside, between

    def base_ns(self, choice: Choice) -> float:
        """Return the time before the first message."""
        name = "ring" if choice.algorithm == "p2p" else choice.algorithm
        return 1000 * _BASE[name][PROTOCOLS.index(choice.protocol)]

    def hops(self, choice: Choice) -> tuple[Hop, ...]:
        """Return the costs of messages within and between machines."""
        name = "ring" if choice.algorithm == "p2p" else choice.algorithm
        inside, between = self.hop_us(name, choice.protocol)
        wire = {"ll": 2.0, "ll128": 128 / 120, "simple": 1.0}[choice.protocol]
        if name.startswith("nvls"):
            # The 25 us are those of a reduction in the switch and of a multicast together.
            near = wire / _NVLS_EFFICIENCY[self._index]
            return (
                Hop(delay_ns=500 * inside, inflation=near),
                Hop(delay_ns=1000 * between, inflation=wire),
            )
        # With the protocol Simple, threads of a block wait for each other in each slice; flags among
        # the data let those of the others wait only in each step.
        steps, slices = (0.0, min(inside, between))[:: 1 if choice.protocol == "simple" else -1]
        if choice.algorithm == "p2p":
            return Hop(delay_ns=1000 * inside), Hop(delay_ns=1000 * between)
        rate = self.block_rate(choice.protocol) * wire
        return tuple(
            Hop(1000 * steps, 1000 * slices, rate, 1000 * (hop - steps - slices), wire)
            for hop in (inside, between)
        )

    def block_rate(self, protocol: str) -> float:
        """Return the rate of a thread block.

        NCCL's tables limit the channels of its graph, each of which two thread blocks serve. There
        is no limit for rings with the protocol Simple; the fastest of trees is taken for them.
        """
        if protocol == "ll":
            machines = self.shape.machines
            return self._ll_max(min(machines, 3) - 1) / self.channels
        table = _TREE_MAX if protocol == "simple" else _RING_LL128_MAX
        return max(table[self._index]) / 2

    def _ll_max(self, scale: int) -> float:
        """Return the limit of all channels with the protocol LL."""
        return _LL_MAX[(self.options.cpu == "amd") if scale else self._index][scale]

    def _bandwidth(self, collective: str, algorithm: str, protocol: str) -> float:
        """Return the data per time of an algorithm; 0 if it does not exist."""
        shape, graph = self.shape, self.graph
        n, machines = shape.size, shape.machines
        scale = 0 if machines == 1 else 1 if machines == 2 else 2
        arch = self._index
        steps = {"allreduce": 2 * (n - 1), "allgather": n - 1, "reduce-scatter": n - 1}
        ratio = n / steps.get(collective, n)
        if algorithm in ("nvls", "nvls-tree"):
            found = self._nvls()
            if not found or (algorithm == "nvls") != (machines == 1) or protocol != "simple":
                return 0.0
            if algorithm == "nvls-tree" and collective != "allreduce":
                return 0.0
            inside = found.rate * _NVLS_EFFICIENCY[arch] * (found.channels - 1) / found.channels
            each = n / machines
            inside *= 2 if collective == "allreduce" else (each - 1) / each
            between = found.rate * (2 if machines <= 2 and algorithm == "nvls-tree" else 1)
            limit = _NVLS_TREE_MAX[arch][scale] if algorithm == "nvls-tree" else float("inf")
            bus = found.channels * min(inside, between, limit)
            return bus * ratio if collective == "allreduce" else bus
        bus = graph.channels * graph.rate
        ll_max = self._ll_max(scale)
        if algorithm == "pat":
            one_each = machines == n and protocol == "simple"
            return 0.75 * bus if one_each and collective in ("allgather", "reduce-scatter") else 0.0
        if algorithm == "tree":
            if collective != "allreduce":
                return 0.0
            bus = min(bus * 0.92, graph.channels * _TREE_MAX[arch][scale])
            if protocol == "ll":
                bus = min(bus / 3.8, ll_max)
            if protocol == "ll128":
                bus *= 7 / 9 if machines == 1 else 120 / 128
                bus = min(bus, graph.channels * _TREE_LL128_MAX[arch][scale])
            return bus / 2
        if protocol == "ll":
            bus = min(ll_max, bus / 2)
        if protocol == "ll128":
            bus = min(bus * 0.92, graph.channels * _RING_LL128_MAX[arch][scale])
        return bus * ratio

    def _latency(self, collective: str, algorithm: str, protocol: str) -> float:
        n, machines = self.shape.size, self.shape.machines
        inside, between = self.hop_us(algorithm, protocol)
        latency = _BASE[algorithm][PROTOCOLS.index(protocol)]
        levels = machines.bit_length() - 1
        if algorithm == "ring":
            if collective in ("broadcast", "reduce"):
                slow = "tree" if protocol == "simple" else "ring"
                lat = _HOP["net" if machines > 1 else self._link][slow]
                return latency + n * lat[PROTOCOLS.index(protocol)]
            twice = 2 if collective == "allreduce" else 1
            far = twice * (machines - 1)
            return latency + (twice * (n - 1) - far) * inside + far * between
        if algorithm == "tree":
            return latency + 2 * ((n // machines - 1) * inside + levels * between)
        if algorithm == "pat":
            return latency + levels * between / 3.5 + n * 2.8
        return latency + inside + (2 * levels * between if algorithm == "nvls-tree" else 0)

    def time_us(self, collective: str, algorithm: str, protocol: str, size: int) -> float | None:
        """Return NCCL's estimate of the time of a collective; None if it cannot run so."""
        bandwidth = self._bandwidth(collective, algorithm, protocol)
        if protocol == "ll128" and self.shape.fewest > 1 and self._link != "nvlink":
            return None
        if bandwidth <= 0:
            return None
        latency = self._latency(collective, algorithm, protocol)
        power = max(size >> 6, 1).bit_length() - 1
        if algorithm == "tree" and power < 23:
            bandwidth *= _TREE_CORRECTION[protocol][power]
        plateau = size / (self.channels * self.shape.size) >= 64 and self.shape.machines > 1
        if collective == "allreduce" and (algorithm, protocol) == ("ring", "simple") and plateau:
            latency *= 1.4 if self._index else 1.9
        return latency + size / (1000 * bandwidth)

    def choose(self, collective: str, size: int) -> Choice:
        """Return the algorithm, protocol and channels of a collective.

        Parameters
        ----------
        collective
            Name, one of `Collective`.
        size
            Bytes as NCCL counts them: the larger of what a rank gives and takes.

        Raises
        ------
        NotApplicable
            If the algorithm or protocol asked for does not exist here.
        """
        notes: list[str] = []
        if collective in ("alltoall", "sendrecv"):
            if self.options.algo != "auto" or self.options.proto not in ("auto", "simple"):
                raise NotApplicable(
                    f"{collective} is point-to-point: no algorithm, and only the protocol simple"
                )
            return Choice(collective, "p2p", "simple", self._p2p_channels(), 1, P2P_CHUNK, P2P_CHUNK)
        times = {
            (algorithm, protocol): time
            for algorithm in _BASE
            for protocol in PROTOCOLS
            if (time := self.time_us(collective, algorithm, protocol, size)) is not None
        }
        asked = {
            key: time
            for key, time in times.items()
            if self.options.algo in ("auto", key[0]) and self.options.proto in ("auto", key[1])
        }
        known = {key: time for key, time in asked.items() if key[0] != "pat"}
        if not known:
            able = ", ".join(sorted({f"{a} with {p}" for a, p in times if a != "pat"}))
            raise NotApplicable(
                f"NCCL {VERSION} has no {collective} with algo={self.options.algo} and "
                f"proto={self.options.proto} on these machines; expected {able}"
            )
        algorithm, protocol = min(known, key=lambda key: known[key])
        if min(asked, key=lambda key: asked[key])[0] == "pat":
            notes.append(
                f"{collective} of {size:,} bytes: NCCL would take PAT, which is not modelled; "
                f"{algorithm} is what it takes with NCCL_PAT_ENABLE=0"
            )
        channels = self._used_channels(algorithm, protocol, size)
        chunk, at_once = self._chunk(collective, algorithm, protocol, size, channels)
        base = self.heads if algorithm.startswith("nvls") else self.base
        return Choice(
            collective, algorithm, protocol, channels, min(base, channels), chunk, at_once, times,
            tuple(notes),
        )  # fmt: skip

    def _used_channels(self, algorithm: str, protocol: str, size: int) -> int:
        """Return the channels of a collective: fewer if each would have little to do."""
        if algorithm.startswith("nvls"):
            most = max(_NVLS_CHANNELS, self.options.min_channels)
            return min(most, self.options.max_channels)
        threads = {"ll": 512, "ll128": 640, "simple": 512}[protocol]
        if self.options.nthreads:
            threads = min(threads, self.options.nthreads)
        enough = {"ll": 8, "ll128": 8, "simple": 64}[protocol]
        if (algorithm, protocol) == ("ring", "ll"):
            enough *= self.shape.size
        return max(1, min(self.channels, size // (threads * enough)))

    def _chunk(
        self, collective: str, algorithm: str, protocol: str, size: int, channels: int
    ) -> tuple[int, int]:
        """Return the data of a channel in one step, and those that it passes on at once."""
        step = self.options.buffsize // _STEPS
        if protocol == "ll":
            return _LL_BUFFER // _STEPS // 2, _LL_SLICE
        if protocol == "ll128":
            chunk = _LL128_BUFFER // _STEPS * 15 // 16
            if algorithm == "tree":
                each = self.shape.size / self.shape.machines
                depth = self.shape.machines.bit_length() + 0.1 * each
                for times, least in ((64, 131072), (16, 32768)):
                    while size // (channels * chunk) < depth * times / each and chunk > least:
                        chunk //= 2
            return chunk, _LL128_SLICE
        if algorithm.startswith("nvls"):
            chunk, parts = min(_NVLS_CHUNK, step), channels * self.heads
            limits = ((4, 65536), (1, 32768)) if algorithm == "nvls-tree" else (
                (64, 65536), (8, 32768), (2, 16384))  # fmt: skip
            for times, least in limits:
                if size < times * parts * chunk and chunk > least:
                    chunk = least
            return chunk, chunk
        if algorithm == "ring" and collective not in ("broadcast", "reduce"):
            return 4 * step, 0
        return step, step

    def _p2p_channels(self) -> int:
        """Return the channels of a peer (ncclTopoComputeP2pChannels)."""
        shape = self.shape
        most = _power_up(self.channels)
        if shape.machines == 1:
            links = int(self._inside / _NVLINK[self.architecture] + 1e-9)
            return min(most, _power_up(2 * max(1, links)) if self._link == "nvlink" else 2)
        each = _power_up(max(1, ceil(int(self._net) / P2P_CHANNEL)))
        while each > 1 and each * ceil(shape.size / P2P_PER_BATCH) > most:
            each //= 2
        return min(each, most)


def _power_up(value: int) -> int:
    """Return the smallest power of two that is not below a number."""
    return 1 << (value - 1).bit_length()
