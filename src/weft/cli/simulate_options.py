"""Options of `weft simulate` that say what runs, and how."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

from cyclopts import Parameter

from weft.cli.common import split_names
from weft.core.errors import InputError
from weft.sim.packet.hardware_text import parse_hardware


@Parameter(name="*")
@dataclass(frozen=True)
class RunOptions:
    """The run, where no experiment file says it."""

    workload: Annotated[
        tuple[str, ...],
        Parameter(
            help="A collective, application or traffic pattern with options, such as "
            "'allreduce:size=1MiB', or a file or folder of traces; repeatable, to compare."
        ),
    ] = ()
    workload_format: Annotated[
        str | None, Parameter(help="Format of a workload file; its contents tell when left out.")
    ] = None
    workload_option: Annotated[
        tuple[str, ...],
        Parameter(help="Option of the workload or its format, NAME=VALUE; repeatable."),
    ] = ()
    ranks: Annotated[
        str | None, Parameter(help="Number of ranks; as many as the hosts take when left out.")
    ] = None
    placement: Annotated[
        tuple[str, ...],
        Parameter(
            help="Placement, with options as in 'random:seed=3'; repeatable. linear when left out."
        ),
    ] = ()
    ranks_per_host: Annotated[str | None, Parameter(help="Most ranks on one host: 1.")] = None
    distribution: Annotated[
        str | None,
        Parameter(help="How ranks fill hosts: block (when left out), cyclic or plane=N."),
    ] = None
    hosts: Annotated[
        str | None, Parameter(help="Hosts that may be used, as a list: 'node[001-036]'.")
    ] = None
    start: Annotated[str | None, Parameter(help="When the job starts, such as 10us: 0.")] = None
    engine: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--engine", "--engines"],
            help="Routing engine, with options as in 'updn:roots=center'; repeatable. minhop when "
            "left out; all for every one.",
            consume_multiple=(1, None),
        ),
    ] = ()
    level: Annotated[
        tuple[str, ...],
        Parameter(help="Level of detail: flow (when left out), static or packet; repeatable."),
    ] = ()
    sharing: Annotated[
        tuple[str, ...],
        Parameter(
            help="How messages share links: maxmin (when left out), penalty or none; repeatable."
        ),
    ] = ()
    coefficients: Annotated[
        str | None,
        Parameter(help="File of coefficients for --sharing penalty that weft calibrate wrote."),
    ] = None
    policy: Annotated[
        tuple[str, ...],
        Parameter(
            name=["--policy", "--policies"],
            help="Policy of packets where routes leave a choice, such as 'adaptive' or "
            "'flowlet:gap=10us'; repeatable. ecmp when left out.",
        ),
    ] = ()
    hardware: Annotated[
        tuple[str, ...],
        Parameter(
            help="Switches and adapters at the packet level, as in "
            "'mtu=4KiB,buffer=32KiB,queues=voq,speedup=2'; repeatable."
        ),
    ] = ()
    lids: Annotated[
        str | None,
        Parameter(
            help="Which LIDs of hosts that have several packets go to: first (when left out), hash "
            "or spread."
        ),
    ] = None
    snapshot: Annotated[
        str | None,
        Parameter(help="Look at all buffers each so often, such as 10us (packet level)."),
    ] = None
    trace_message: Annotated[
        tuple[str, ...],
        Parameter(
            help="Show every hop of a message, RANK:N for the one that the rank sends as its "
            "number N from 0; JOB:RANK:N where there are several jobs; repeatable (packet level)."
        ),
    ] = ()
    tolerance: Annotated[
        str | None, Parameter(help="Relative error of times allowed for speed: 0.")
    ] = None
    eager: Annotated[
        str | None, Parameter(help="Largest message sent without asking its receiver: 16KiB.")
    ] = None
    no_handshake: Annotated[
        bool, Parameter(help="Larger ones need no request and answer before data leaves.")
    ] = False
    overhead: Annotated[
        str | None, Parameter(help="Time of the processor at either side of a message: 0.")
    ] = None
    switch_latency: Annotated[
        str | None, Parameter(help="Latency of a switch: that of the hardware, 100ns.")
    ] = None
    latency: Annotated[
        str | None, Parameter(help="Latency of every message, instead of that of its way.")
    ] = None
    local_gbps: Annotated[str | None, Parameter(help="Rate within a host, in Gb/s: 100.")] = None
    local_latency: Annotated[str | None, Parameter(help="Latency within a host: 200ns.")] = None
    multipath: Annotated[
        str | None,
        Parameter(help="Where routes leave a choice: split (when left out) or hash."),
    ] = None
    straight: Annotated[
        str | None,
        Parameter(help="Share of ugal's traffic that goes straight: what makes loads least."),
    ] = None
    ports: Annotated[
        str | None, Parameter(help="Ports of hosts with several: first (when left out) or spread.")
    ] = None
    seed: Annotated[str | None, Parameter(help="Seed of what is drawn: 0.")] = None

    @property
    def of_job(self) -> list[str]:
        """Options given that say what runs, as on the command line."""
        names = ["--" + name.replace("_", "-") for name in _OF_JOB]
        return [name for name in given_options(self) if name in names]

    @property
    def job(self) -> dict[str, Any]:
        """Keys of the job."""
        keys = {key: value for key, value in self._keys().items() if key in _OF_JOB}
        if "placement" in keys:
            keys["placement"] = tuple(part for text in self.placement for part in split_names(text))
        if "workload_format" in keys:
            keys["format"] = keys.pop("workload_format")
        options = {}
        for text in keys.pop("workload_option", ()):
            name, equals, value = text.partition("=")
            if not (name and equals and value):
                raise InputError(f"--workload-option {text}: expected NAME=VALUE")
            if name in options:
                raise InputError(f"--workload-option {text}: {name} is given twice")
            options[name] = value
        return {**keys, "options": options} if options else keys

    @property
    def settings(self) -> dict[str, Any]:
        """Keys of the experiment besides its job."""
        keys = {key: value for key, value in self._keys().items() if key not in _OF_JOB}
        if keys.pop("no_handshake", False):
            keys["handshake"] = False
        for name in ("engine", "level", "sharing", "policy"):
            if name in keys:
                keys[name] = tuple(part for text in keys[name] for part in split_names(text))
        if "trace_message" in keys:
            keys["trace"] = keys.pop("trace_message")
        if "hardware" in keys:
            try:
                keys["hardware"] = parse_hardware(keys["hardware"])
            except InputError as error:
                raise InputError(f"--hardware: {error.message}") from None
        return keys

    @property
    def of_packets(self) -> list[str]:
        """Options given that mean something at the packet level only, as on the command line."""
        names = ["--" + name.replace("_", "-") for name in _OF_PACKETS]
        return [name for name in given_options(self) if name in names]

    def _keys(self) -> dict[str, Any]:
        return {
            field.name: _number(field.name, getattr(self, field.name))
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }


NO_OPTIONS = RunOptions()
_OF_JOB = (
    "workload", "workload_format", "workload_option", "ranks", "placement", "ranks_per_host",
    "distribution", "hosts", "start",
)  # fmt: skip
_OF_PACKETS = ("policy", "hardware", "lids", "snapshot", "trace_message")
#: Where an option is no text: what makes a number of it.
_NUMBERS: dict[str, Any] = {
    "ranks": int, "ranks_per_host": int, "seed": int, "tolerance": float, "local_gbps": float,
}  # fmt: skip


def given_options(options: Any) -> list[str]:
    """Names of the options of a group that were given, as on the command line."""
    return [
        "--" + field.name.replace("_", "-")
        for field in fields(options)
        if getattr(options, field.name) != field.default
    ]


def _number(name: str, value: Any) -> Any:
    if name not in _NUMBERS:
        return value
    try:
        return _NUMBERS[name](value)
    except ValueError:
        kind = "a whole number" if _NUMBERS[name] is int else "a number"
        raise InputError(f"--{name.replace('_', '-')}: expected {kind}, not {value!r}") from None
