"""The file of a study with every key and default, as TOML that describes the same runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from weft.core.settings import Option
from weft.core.toml_lines import KeyPath
from weft.study.axes import is_list_of_tables, set_key, text_of
from weft.study.experiment.toml_file import key_text, table_in, toml_text
from weft.study.spec import StudyFile, copied


def resolved(study: StudyFile) -> str:
    """Return the file of a study with every key, its defaults, and sizes and times as numbers.

    Keys without a value, and seeds that the repetitions set, are comments. Names of files stay as
    they are, relative to the folder of the file.
    """
    lines = [
        f"# Every key of {study.path.name}; names of files are relative to its folder.",
        f"command = {toml_text(study.command.name)}",
    ]
    probe = copied(study.keys)
    varied = {
        set_key(probe, path, None)
        for axis in study.axes
        for path in axis.paths
        if not axis.is_variable(path)
    }
    writer = _Writer(varied, seeds=study.study.seeds is not None)
    lines += writer.table(study.first(), study.keys, ())
    for header, model, given, path in writer.tables:
        lines += ["", header, *writer.table(model, given, path)]
    lines += ["", *_study(study)]
    return "\n".join(lines) + "\n"


class _Writer:
    """Writer of tables; tables inside them are written later."""

    def __init__(self, varied: set[KeyPath], *, seeds: bool) -> None:
        self._varied = varied
        self._seeds = seeds
        self.tables: list[tuple[str, BaseModel, Mapping[str, Any], KeyPath]] = []

    def table(self, model: BaseModel, given: Mapping[str, Any], path: KeyPath) -> Iterator[str]:
        """Yield the lines of a table.

        Parameters
        ----------
        given
            The table as the file gives it.
        """
        data = model.model_dump(mode="json")
        for key, about in type(model).model_fields.items():
            inner = (*path, key)
            if inner in self._varied:
                continue
            value: Any = getattr(model, key)
            raw: Any = given.get(key)
            if is_list_of_tables(about.annotation):
                for number, each in enumerate(value):
                    self.tables.append((f"[[{key}]]", each, raw[number], (*inner, number)))
            elif table_in(about.annotation) is not None:
                table = {"source": raw} if isinstance(raw, str) else raw or {}
                self.tables.append((f"[{key}]", value, table, inner))
            else:
                yield self._line(key, data[key], given, about, inner)

    def _line(
        self, key: str, value: Any, given: Mapping[str, Any], about: FieldInfo, path: KeyPath
    ) -> str:
        if any(each[: len(path)] == path for each in self._varied):  # some of its keys vary
            return f"{key_text(key)} = {toml_text(given.get(key, {}))}"
        if key in given and "$" in toml_text(given[key]):
            return f"{key_text(key)} = {toml_text(given[key])}"
        if key == "seed" and self._seeds and key not in given:
            return "# seed: that of the repetition"
        if value is None:
            usual = next((each.usual for each in about.metadata if isinstance(each, Option)), "")
            return f"# {key}: {usual or 'none'}"
        return f"{key_text(key)} = {toml_text(value)}"


def _study(study: StudyFile) -> Iterator[str]:
    """Yield the lines of the table ``[study]``."""
    part = study.study
    yield "[study]"
    yield f"title = {toml_text(study.title)}"
    seeds: Any = part.seeds
    if seeds == tuple(range(len(seeds or ()))) and seeds:
        seeds = len(seeds)
    for name, value in (
        ("seeds", seeds), ("baseline", part.baseline), ("exclude", part.exclude),
        ("measures", part.measures), ("tables", part.tables), ("run_seconds", part.run_seconds),
        ("run_memory", part.run_memory),
    ):  # fmt: skip
        yield f"# {name}: none" if value is None else f"{name} = {toml_text(value)}"
    header = ""
    for axis in study.axes:
        # All axes of the product come before those of zips.
        zipped = len(axis.paths) > 1 or header == "[[study.zip]]"
        if zipped or not header:
            header = "[[study.zip]]" if zipped else "[study.product]"
            yield from ("", header)
        for at, path in enumerate(axis.paths):
            labels = [each[at] for each in axis.labels]
            values = [each[at] for each in axis.values]
            yield f"{'.'.join(map(key_text, path))} = {_listed(labels, values)}"


def _listed(labels: Sequence[str], values: Sequence[Any]) -> str:
    """Return values as a list, or as a table if their labels are others."""
    if [*labels] == [text_of(value) for value in values]:
        return toml_text(values)
    return toml_text(dict(zip(labels, values, strict=True)))
