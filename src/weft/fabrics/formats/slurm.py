"""Slurm's ``topology.conf`` and ``topology.yaml``: written from a fabric, and read for a check.

Neither file has ports or rates, so neither describes a fabric.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from weft.core.counts import count_text
from weft.core.errors import InputError, NotApplicable, source_name
from weft.core.files import read_text
from weft.core.registry import in_words
from weft.core.words import few
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import warn, warn_of, writer
from weft.fabrics.formats.hostlist import MAX_HOSTS, compress, expand
from weft.fabrics.formats.switch_tree import SwitchTree, TreeLine, other_hosts

#: Levels of block sizes above the base that Slurm knows: each is a power of two times the base.
MAX_BLOCK_LEVEL = 15

_PAIR = re.compile(r'\b(\w+)\s*=\s*("[^"]*"|[^\s"]+)\s*')
#: Largest depth of a topology.yaml that can be one.
_MAX_DEPTH = 20


def _names(text: Any, info: ValidationInfo) -> tuple[str, ...]:
    """Expand a host list; the context has the number of names that the file may still list."""
    try:
        names = tuple(expand(text)) if isinstance(text, str) else ()
    except InputError as error:
        raise ValueError(error.message) from None
    left = info.context or {}
    left["names"] -= len(names)
    if not names or left["names"] < 0:
        raise ValueError(f"expected a host list, and at most {MAX_HOSTS:,} names in a file")
    return names


_Names = Annotated[tuple[str, ...], BeforeValidator(_names)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    #: Line of the file at which the table begins.
    line: int


class SlurmBlock(_Table):
    """A block and its nodes."""

    name: str = Field(alias="block", pattern=r"^\S+$")
    nodes: _Names = ()


class SlurmSwitch(_Table):
    """A switch, and the nodes or switches below it."""

    name: str = Field(alias="switch", pattern=r"^\S+$")
    nodes: _Names = ()
    children: _Names = ()


class _Tree(_Table):
    switches: tuple[SlurmSwitch, ...] = Field(min_length=1)


class _Blocks(_Table):
    blocks: tuple[SlurmBlock, ...] = Field(min_length=1)
    block_sizes: tuple[Annotated[int, Field(lt=2**31)], ...] = ()


class SlurmTopology(_Table):
    """One topology of a file."""

    topology: str = Field(pattern=r"^\S+$")
    cluster_default: bool = False
    tree: _Tree | None = None
    block: _Blocks | None = None
    #: Kinds that list nothing that is checked.
    flat: Any = None
    ring: Any = None
    torus3d: Any = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = ("tree", "block", "flat", "ring", "torus3d")
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            raise ValueError(f"expected one of {', '.join(kinds)}")
        return self

    @property
    def nodes(self) -> list[str]:
        """The nodes that it lists, each once, in the order of the file."""
        entries = self.tree.switches if self.tree else self.block.blocks if self.block else ()
        return list(dict.fromkeys(node for entry in entries for node in entry.nodes))


_FILE = TypeAdapter(Annotated[list[SlurmTopology], Field(min_length=1)])
#: Keys of topology.conf -> keys of topology.yaml.
_YAML_KEYS = {
    "switchname": "switch",
    "blockname": "block",
    "blocksizes": "block_sizes",
    "switches": "children",
}

# -- writing ---------------------------------------------------------------------------------------


@writer("slurm", suffixes=("topology.conf",))
def write(fabric: Fabric, *, root: str = "fabric") -> str:
    """Slurm ``topology.conf``: leaf switches with their nodes, and the tree of switches above them.

    A fabric that is no tree is converted to one, and a `FormatWarning` counts the switches and
    cables that are left out. Parts that are not cabled together get no common root.

    Parameters
    ----------
    root
        Name of the line that joins several tops of one connected part, because otherwise Slurm
        runs no job across them. If several parts need such a line, a number is appended.

    Raises
    ------
    NotApplicable
        If no host is cabled to a switch, or two nodes would have the same name.
    """
    lines = [f"# topology.conf of {' '.join(fabric.name.split())}, by weft"]
    for line in SwitchTree(fabric, "topology.conf", root).lines:
        lines += [f"# {text}" for text in _comments(line)]
        key, names = ("Switches", line.children) if line.children else ("Nodes", line.hosts)
        lines.append(f"SwitchName={line.name} {key}={compress(names)}")
    return "\n".join([*lines, ""])


@writer("slurm-yaml", suffixes=("topology.yaml",))
def write_yaml(
    fabric: Fabric,
    *,
    topologies: tuple[Literal["tree", "block", "flat"], ...] = ("tree",),
    tier: int = 1,
    block_sizes: tuple[int, ...] = (),
    root: str = "fabric",
) -> str:
    """Slurm ``topology.yaml``: one or more named topologies, of which the first is the default.

    The tree is that of ``topology.conf``. Blocks are the hosts below each switch of a tier, in the
    order of the tree, without those of other roles than compute: nodes that Slurm does not know
    would not count in a block. Each topology has the name of its kind.

    Parameters
    ----------
    topologies
        Kinds of topologies: ``tree``, ``block``, ``flat``.
    tier
        Tier of the switches below which blocks are: 1 for leaf switches.
    block_sizes
        Numbers of nodes: the base size, then powers of two times it. Blocks with fewer nodes than
        the base are left out, since Slurm refuses them. Default: the nodes of the smallest block,
        and its multiples where the blocks of each switch above are a power of two in number.
    root
        Name of the switch that joins several tops of the tree, as in ``topology.conf``.

    Raises
    ------
    NotApplicable
        If no host is cabled to a switch, two nodes would have the same name, or all blocks have
        fewer nodes than the base size.
    """
    if not topologies or len(set(topologies)) < len(topologies):
        raise InputError("slurm-yaml: topologies needs one or more kinds, each once")
    if tier < 1:
        raise InputError(f"slurm-yaml: tier {tier}; expected 1 or more")
    if block_sizes and (wrong := size_problem(block_sizes)):
        raise InputError(f"slurm-yaml: {wrong}")
    lines = [f"# topology.yaml of {' '.join(fabric.name.split())}, by weft"]
    tree = SwitchTree(fabric, "topology.yaml", root)
    for number, kind in enumerate(topologies):
        lines += [f"- topology: {kind}", f"  cluster_default: {str(number == 0).lower()}"]
        if kind == "tree":
            lines += ["  tree:", "    switches:"]
            for line in tree.lines:
                key, names = ("children", line.children) if line.children else ("nodes", line.hosts)
                lines.append(f"    - switch: {json.dumps(line.name)}")
                lines += [f"      # {text}" for text in _comments(line)]
                lines.append(f"      {key}: {json.dumps(compress(names))}")
        elif kind == "block":
            blocks, sizes = _blocks(tree, tier, block_sizes)
            lines += ["  block:", "    block_sizes:"]
            lines += [f"    - {size}" for size in sizes]
            lines.append("    blocks:")
            for name, hosts in blocks.items():
                lines += [f"    - block: {json.dumps(name)}"]
                lines += [f"      nodes: {json.dumps(compress(hosts))}"]
        else:
            lines.append("  flat: true")
    return "\n".join([*lines, ""])


def _comments(line: TreeLine) -> list[str]:
    if line.others is None:
        return [
            f"{line.name} is not a switch: it spans switches without a common switch above them"
        ]
    return [f"{line.name} also represents {compress(line.others)}"] if line.others else []


def _blocks(
    tree: SwitchTree, tier: int, sizes: tuple[int, ...]
) -> tuple[dict[str, list[str]], list[int]]:
    """Return the hosts of each block, and the block sizes."""
    heights, others = tree.heights(), other_hosts(tree.fabric)
    blocks: dict[str, list[str]] = {}
    inside: dict[str, set[str]] = {}
    for chain in tree.chains():
        at = max(k for k, line in enumerate(chain) if heights[line.name] <= tier)
        name = chain[at].name
        hosts = [host for host in chain[0].hosts if host not in others]
        if hosts:
            blocks.setdefault(name, []).extend(hosts)
        for upper in chain[at + 1 :] if hosts else ():
            inside.setdefault(upper.name, set()).add(name)
    if not blocks:
        raise NotApplicable("no host computes, by its role")
    what = "of other roles than compute are in no block"
    warn_of(tree.fabric.name, sorted(others), "host", what)
    base = sizes[0] if sizes else min(map(len, blocks.values()))
    small = [name for name, hosts in blocks.items() if len(hosts) < base]
    if small:
        count = sum(len(blocks.pop(name)) for name in small)
        if not blocks:
            raise NotApplicable(f"no block has the {base} nodes of the base block size")
        warn(
            tree.fabric.name,
            f"{count_text(len(small), 'block')} with fewer than {base} nodes, of "
            f"{count_text(count, 'node')} in all, are left out: {few(small)}",
        )
    if sizes:
        return blocks, list(sizes)
    counts: dict[int, list[int]] = {}
    for upper_name, names in inside.items():
        counts.setdefault(heights[upper_name], []).append(len(names))
    # Without a line above some block, later ones would not be joined as the switches join them.
    regular = {
        numbers[0]
        for numbers in counts.values()
        if len(set(numbers)) == 1 and sum(numbers) == len(blocks)
    }
    multiples = [base * number for number in sorted(regular) if number > 1]
    return blocks, [base, *(size for size in multiples if not size_problem((base, size)))]


def size_problem(sizes: tuple[int, ...]) -> str:
    """Return what Slurm refuses of block sizes; an empty text if nothing."""
    if sizes[0] < 1:
        return f"block size {sizes[0]}; expected 1 or more"
    for low, high in pairwise(sizes):
        if high <= low:
            return f"block size {high} is not larger than {low} before it"
    for size in sizes:
        times, rest = divmod(size, sizes[0])
        if rest or times & (times - 1) or times > 1 << MAX_BLOCK_LEVEL:
            return (
                f"block size {size} is not a power of two, up to 2^{MAX_BLOCK_LEVEL}, times the "
                f"base {sizes[0]}"
            )
    return ""


# -- reading ---------------------------------------------------------------------------------------


def read_topologies(path: str | Path) -> list[SlurmTopology]:
    """Return the topologies of a topology.conf or topology.yaml file."""
    return parse_topologies(read_text(path), source_name(path))


def parse_topologies(text: str, file: str) -> list[SlurmTopology]:
    """Return the topologies in the contents of a file: YAML if no line names a switch or block."""
    data = [_conf(text, file)] if _is_conf(text) else _yaml(text, file)
    try:
        return _FILE.validate_python(data, context={"names": MAX_HOSTS})
    except ValidationError as error:
        first = error.errors()[0]
        keys = ".".join(str(part) for part in first["loc"]) or "file"
        line: int | None = None
        at: Any = data
        for part in (*first["loc"], ""):
            if isinstance(at, dict):
                line, at = at.get("line", line), at.get(part)
            elif isinstance(at, list) and isinstance(part, int):
                at = at[part]
        raise InputError(f"{keys}: {in_words(first)}", file=file, line=line) from None


def _is_conf(text: str) -> bool:
    return bool(re.search(r"^[ \t]*(?:SwitchName|BlockName|BlockSizes)[ \t]*=", text, re.I | re.M))


def is_topologies(text: str) -> bool:
    """Return whether a text is a topology.conf or topology.yaml."""
    return _is_conf(text) or is_yaml(text)


def is_yaml(text: str) -> bool:
    """Return whether a text is a topology.yaml."""
    return bool(re.search(r"^(?:-| )[ ]*[\"']?topology[\"']?[ \t]*:", text, re.MULTILINE))


def _conf(text: str, file: str) -> dict[str, Any]:
    """Return the topology of a topology.conf as a topology.yaml gives it."""
    switches: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    sizes: list[str] = []
    for number, line in _joined(text):
        found = _PAIR.findall(line)
        pairs = {key.lower(): value.strip('"') for key, value in found}
        rest = _PAIR.sub("", line)
        if rest or len(pairs) < len(found):
            what = f"expected key=value, found {rest[:40]!r}" if rest else "a key is there twice"
            raise InputError(what, file=file, line=number)
        entry = {_YAML_KEYS.get(key, key): value for key, value in pairs.items()}
        if "block_sizes" in entry:
            sizes += entry["block_sizes"].split(",")
        else:
            entry.pop("linkspeed", None)
            (blocks if "block" in entry else switches).append(entry | {"line": number})
    if switches and (blocks or sizes):
        message = "has switches and blocks; Slurm takes one of them"
        raise InputError(message, file=file, line=switches[0].get("line"))
    tree = {"line": 1, "switches": switches} if switches else None
    block = None if switches else {"line": 1, "blocks": blocks, "block_sizes": sizes}
    return {"topology": "topology.conf", "line": 1, "tree": tree, "block": block}


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines and their numbers, without comments, joined where a backslash ends a line."""
    parts: list[str] = []
    first = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        first = first or number
        part = line.partition("#")[0].rstrip()
        parts.append(part.removesuffix("\\"))
        if not part.endswith("\\"):
            if joined := " ".join(parts).strip():
                yield first, joined
            parts, first = [], 0


def _yaml(text: str, file: str) -> Any:
    """Return the contents of a YAML file with texts as values, and a line in each table."""
    try:
        import yaml
    except ImportError:
        message = "needs PyYAML to be read; install it with: pip install 'weft[yaml]'"
        raise InputError(message, file=file) from None

    base: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # libyaml is not everywhere

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            line = node.start_mark.line + 1
            if len(found) < len(node.value) or "line" in found:
                what = "unknown key line" if "line" in found else "a key is there twice"
                raise InputError(what, file=file, line=line)
            return found | {"line": line}

    depth = 0
    try:
        for event in yaml.parse(text, Loader=base):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            # Few aliases can stand for more values than fit in memory.
            if isinstance(event, yaml.AliasEvent) or depth > _MAX_DEPTH:
                what = "is nested too deeply" if depth > _MAX_DEPTH else "has an alias of YAML"
                raise InputError(what, file=file, line=event.start_mark.line + 1)
        return yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise InputError(
            f"is not valid YAML: {what}", file=file, line=mark and mark.line + 1
        ) from None
