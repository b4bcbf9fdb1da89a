"""`MachineModel`: what is inside one machine: processors, what connects them, and adapters."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from weft.core.errors import InputError
from weft.core.files import is_source, parse_toml, read_text
from weft.core.registry import Registry, did_you_mean, in_words
from weft.core.toml_lines import line_of

node_model = Registry("file or model of machines", "weft.fabrics.models", "weft.node_models")

Count = Annotated[int, Field(ge=1, le=1024, strict=True)]
Rate = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, strict=True)]
Latency = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, strict=True)]


@dataclass(frozen=True)
class MachineModel:
    """Structure of the machines of a fabric, all of one model.

    A *processor* (a GPU, or a socket of CPUs) is a host of the fabric, on which ranks run. Its
    first port leads to the scale-up network, if there is one, and its last port to its near
    adapter: directly to a leaf switch, or to a PCIe switch.

    Parameters
    ----------
    name
        Name of the model, such as ``dgx-h100``.
    summary
        The machine in one line.
    source
        Public source of each value.
    kind
        ``gpu`` or ``cpu``.
    processors
        Number of processors of a machine.
    adapters
        Number of adapters of a machine.
    adapter_gbps
        Data rate of an adapter, which must be that of its cable.
    near
        For each processor, the adapter that is near it, from 0; by default equally many
        consecutive processors for each adapter.
    rails
        Number of rails: adapter ``a`` is on rail ``a`` modulo this number. 0: one per adapter.
    scale_up_gbps
        Data rate of a processor to the scale-up network (NVSwitch), in each direction; 0 if there
        is none.
    scale_up_latency_ns
        Latency from processor to processor over the scale-up network, without that of its switch.
    reduces
        Whether switches of the scale-up network reduce and multicast (NVLink SHARP).
    pcie_gbps
        Data rate of a processor to its PCIe switch, in each direction.
    pcie_latency_ns
        Latency from a processor to its adapter.
    between_gbps
        Data rate between each two PCIe switches of a machine without a scale-up network, such as
        that of the links between sockets.
    between_latency_ns
        Latency between two PCIe switches.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: str
    summary: str = field(compare=False, repr=False)
    source: Mapping[str, str] = field(compare=False, repr=False)
    kind: Literal["gpu", "cpu"]
    processors: Count
    adapters: Count
    adapter_gbps: Annotated[Rate, Field(gt=0)]
    near: tuple[Annotated[int, Field(strict=True)], ...] = ()
    rails: Annotated[int, Field(ge=0, strict=True)] = 0
    scale_up_gbps: Rate = 0.0
    scale_up_latency_ns: Latency = 0.0
    reduces: Annotated[bool, Field(strict=True)] = False
    pcie_gbps: Rate = 0.0
    pcie_latency_ns: Latency = 0.0
    between_gbps: Rate = 0.0
    between_latency_ns: Latency = 0.0

    def __post_init__(self) -> None:
        if self.adapters > self.processors:
            raise InputError(
                f"{self.adapters} adapters for {self.processors} processors; expected at most one "
                "for each, near it",
                key="adapters",
            )
        if not self.near:
            spread = (p * self.adapters // self.processors for p in range(self.processors))
            object.__setattr__(self, "near", tuple(spread))
        if len(self.near) != self.processors or set(self.near) != set(range(self.adapters)):
            raise InputError(
                f"near lists {len(self.near)} adapters, {sorted(set(self.near))}; expected one for "
                f"each of the {self.processors} processors, and all of 0 to {self.adapters - 1}",
                key="near",
            )
        if self.adapters % self.num_rails:
            raise InputError(
                f"{self.adapters} adapters are not a multiple of {self.rails} rails", key="rails"
            )
        if self.shared_adapters and not self.pcie_gbps:
            raise InputError(
                f"adapter {self.shared_adapters[0]} has a PCIe switch, but pcie_gbps is 0",
                key="pcie_gbps",
            )
        if not (self.scale_up_gbps or self.between_gbps or self.adapters == 1):
            raise InputError(
                "nothing connects the processors: expected scale_up_gbps or between_gbps above 0"
            )

    @property
    def num_rails(self) -> int:
        """Number of rails."""
        return self.rails or self.adapters

    @property
    def shared_adapters(self) -> tuple[int, ...]:
        """The adapters with a PCIe switch, as several processors or adapters are to reach them."""
        alone = self.scale_up_gbps > 0 or self.processors == 1
        return tuple(a for a in range(self.adapters) if not alone or self.near.count(a) > 1)


def machine_model(name_or_file: str | Path) -> MachineModel:
    """Return a model of machines by its name, or one that a TOML file describes.

    Raises
    ------
    InputError
        If there is no such model or file, or a value is missing or wrong.
    """
    if isinstance(name_or_file, str) and not is_source(name_or_file):
        named: MachineModel = node_model[name_or_file].function()
        return named
    return read_model(read_text(name_or_file), Path(name_or_file).stem, name_or_file)


def read_model(text: str, name: str, path: str | Path) -> MachineModel:
    """Return the model that the text of a TOML file describes."""
    given: dict[str, Any] = {"name": name, **parse_toml(text, path)}
    try:
        return _adapter().validate_python(given)
    except ValidationError as error:
        unknown = "unexpected_keyword_argument"
        first = min(error.errors(), key=lambda each: each["type"] != unknown)
        key, why = ".".join(map(str, first["loc"])), in_words(first)
        if first["type"] == unknown:
            why = "is unknown" + did_you_mean(key, (each.name for each in fields(MachineModel)))
        raise InputError(
            f"{key}: {why}",
            file=path,
            line=line_of(text, first["loc"]),
        ) from None
    except InputError as error:
        raise InputError(error.message, file=path, line=line_of(text, (error.key,))) from None


@functools.cache
def _adapter() -> TypeAdapter[MachineModel]:
    return TypeAdapter(MachineModel)
