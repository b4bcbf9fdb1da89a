"""Parameters of hosts that were estimated from measurements, and their file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from weft.core.files import read_text, write_text
from weft.core.toml_lines import read_table
from weft.sim.common.times import LONGEST_NS

Amount = Annotated[float, Field(ge=0, le=LONGEST_NS, allow_inf_nan=False)]
Interval = tuple[Amount, Amount]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Overhead(_Table):
    """Overhead of messages from a size on, at each of the two processors, and latency of data.

    The latency uses neither processor nor link: an adapter fetches data that were not in the
    request, or copies them in segments. Intervals (95 %) are those of an estimate.
    """

    from_bytes: Annotated[int, Field(ge=0)] = 0
    ns: Amount
    ns_interval: Interval | None = None
    ns_per_byte: Amount = 0.0
    ns_per_byte_interval: Interval | None = None
    latency_ns: Amount = 0.0
    latency_ns_interval: Interval | None = None


#: Overhead of all messages without any settings.
NO_OVERHEAD = (Overhead(ns=0.0),)


class HostParameters(_Table):
    """Parameters of hosts; None or empty where nothing is known.

    `eager_bytes`, `adapter_latency_ns` and `adapter_gbps` are the settings with these names;
    `overhead` stands for `overhead_ns`, by the size of messages. The others are 95 % intervals.
    """

    eager_bytes: Annotated[int, Field(ge=0)] | None = None
    eager_bytes_interval: tuple[int, int] | None = None
    adapter_latency_ns: Amount | None = None
    adapter_latency_ns_interval: Interval | None = None
    adapter_gbps: Annotated[Amount, Field(gt=0)] | None = None
    adapter_gbps_interval: Interval | None = None
    overhead: tuple[Overhead, ...] = ()

    @model_validator(mode="after")
    def _sizes_ascend(self) -> HostParameters:
        begins = [each.from_bytes for each in self.overhead]
        if begins and (begins[0] != 0 or sorted(set(begins)) != begins):
            raise ValueError("from_bytes must ascend from 0")
        return self

    def write(self, path: str | Path, comments: list[str]) -> None:
        """Write the file, with comments above."""
        values = self.model_dump(exclude_none=True)
        tables = values.pop("overhead")
        lines = [f"# {comment}" for comment in comments]
        lines += [f"{key} = {_toml(value)}" for key, value in values.items()]
        for table in tables:
            lines += ["", "[[overhead]]"]
            lines += [f"{key} = {_toml(value)}" for key, value in table.items()]
        write_text(path, "\n".join(lines) + "\n")


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, int) else f"{float(f'{value:.5g}')!r}"


def read_host_parameters(path: str | Path) -> HostParameters:
    """Read a file of host parameters.

    Raises
    ------
    InputError
        If the file cannot be read, a key is unknown, or a value does not fit; it names the line.
    """
    return read_table(HostParameters, read_text(path), path)
