"""A fabric from a user's text: a file or the spec of a topology."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from weft.core.errors import InputError
from weft.core.files import is_source
from weft.core.registry import did_you_mean
from weft.core.settings import File, Group, Option, Settings
from weft.fabrics import Fabric
from weft.fabrics.faults import NO_FAULTS, Faults
from weft.fabrics.formats import read_file
from weft.fabrics.formats.node_name_map import read_names, with_names
from weft.fabrics.machine_cabling import Cabling, with_model
from weft.fabrics.machine_model import MachineModel, machine_model
from weft.fabrics.topology import build, check_spec, topology


@dataclass(frozen=True)
class Source(Settings):
    """Source of a fabric.

    Parameters
    ----------
    source
        A file, a folder, or a spec such as ``xgft:3;6,6,6;1,6,6`` or ``kns:k=6,n=2``.
    format
        Format of the file, with options as in ``ibnetdiscover:rate=4xNDR``; by default detected
        from its contents.
    names
        A node-name-map with labels.
    also
        A file or folder with more about the same fabric, such as rates.
    machines
        A table of machines, their adapters and roles, or Slurm's list of nodes.
    node
        What is in each machine: the name of a model such as ``dgx-h100``, or a TOML file. The hosts
        of the fabric become adapters, and processors become hosts.
    cabling
        Whether the adapters of a machine are at different leaf switches (``rails``) or at one
        (``leaf``), if the fabric does not tell which adapters are in one machine.
    """

    GROUP: ClassVar[Group] = "fabric"

    source: Annotated[str, Field(min_length=1), Option(flag=None)]
    format: str | None = None
    names: File | None = None
    also: tuple[File, ...] | None = None
    machines: File | None = None
    node: File | None = None
    cabling: Annotated[Cabling | None, Option(usual="rails")] = None


def fabric(
    spec_or_path: str | Path,
    *,
    format: str | None = None,
    names: str | Path | None = None,
    also: Sequence[str | Path] = (),
    machines: str | Path | None = None,
    node: str | Path | MachineModel | None = None,
    cabling: Cabling | None = None,
    faults: Faults = NO_FAULTS,
) -> Fabric:
    """Read a fabric from a file, or build the topology that a spec describes.

    Parameters
    ----------
    spec_or_path
        A file (``"-"`` is standard input), a folder of files that describe one fabric, or a spec
        such as ``"xgft:3;6,6,6;1,6,6"``. If a text is both a file name and a spec, the file is
        read; a `Path` is never a spec.
    format
        Format of the file, such as ``"ibsim"`` or ``"ibnetdiscover:rate=4xNDR"``; by default
        detected from its contents.
    names
        A node-name-map file whose names become the labels.
    also
        Files and folders with more about the same fabric. They are merged by GUID and port; the
        first file holds where they contradict each other, which a `FormatWarning` says.
    machines
        A table of machines in CSV, with the columns machine, adapter and role, or Slurm's
        ``topology.conf``, whose nodes compute.
    node
        What is in each machine: the name of a model such as ``"dgx-h100"``, a TOML file, or a
        model. The hosts of the fabric become adapters, and processors become hosts.
    cabling
        ``rails`` if the adapters of a machine are at different leaf switches (default), ``leaf``
        if they are at one; used if the fabric does not tell which adapters are in one machine.
    faults
        Faults to apply.

    Raises
    ------
    InputError
        If the text is neither a file nor a spec, or the file or spec is invalid.

    Examples
    --------
    >>> fabric("kary-n-tree:k=4,n=2")
    Fabric('kary-n-tree:k=4,n=2': 16 hosts, 8 switches, 32 cables)
    """
    if not isinstance(spec_or_path, str | Path):
        raise InputError(f"expected a file or a spec, not {spec_or_path!r}")
    if not isinstance(faults, Faults):
        raise InputError(f"expected Faults, not {faults!r}")
    loaded = _read_or_built(spec_or_path, format, names, also)
    if machines is not None:
        from weft.fabrics.formats.machine_table import read_machines, with_machines

        loaded = with_machines(loaded, read_machines(machines))
    if node is not None:
        model = node if isinstance(node, MachineModel) else machine_model(node)
        loaded = with_model(loaded, model, cabling or "rails")
    elif cabling is not None:
        raise InputError("cabling is given without a model of the machines (node)", key="cabling")
    return loaded if faults == NO_FAULTS else faults.of(loaded)


def check_source(source: str) -> None:
    """Refuse a text that is neither an existing file nor a valid spec; read and build nothing."""
    if not is_source(source):
        _check_family(source)
        check_spec(source)


def _check_family(source: str) -> None:
    family = source.partition(":")[0].strip()
    if family not in topology:
        known = ", ".join(topology.names())
        raise InputError(
            f"{source!r} is neither a file nor a topology: no such file, and no family "
            f"{family!r}{did_you_mean(family, topology.names())}; there are {known}"
        )


def _read_or_built(
    spec_or_path: str | Path,
    format: str | None,
    names: str | Path | None,
    also: Sequence[str | Path],
) -> Fabric:
    if isinstance(spec_or_path, Path) or format is not None or is_source(spec_or_path):
        return read_file(spec_or_path, format, names, also)
    if also:
        raise InputError(f"also: {also[0]} can be merged with a file, not with {spec_or_path!r}")
    _check_family(spec_or_path)
    name_map = None if names is None else read_names(names)
    built = build(spec_or_path)
    return built if name_map is None else with_names(built, name_map, str(names))
