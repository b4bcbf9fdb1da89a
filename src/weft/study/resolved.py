"""The file of a study with every key and default, as TOML that describes the same runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from weft.core.settings import Option
from weft.core.toml_lines import KeyPath
from weft.study.axes import is_list_of_tables, set_key, text_of
from weft.study.experiment.toml_file import Comment, toml_tables
from weft.study.spec import StudyFile, copied


def resolved(study: StudyFile) -> str:
    """Return the file of a study with every key, its defaults, and sizes and times as numbers.

    Keys without a value, and seeds that the repetitions set, are comments. Names of files stay as
    they are, relative to the folder of the file.
    """
    probe = copied(study.keys)
    varied = {
        set_key(probe, path, None)
        for axis in study.axes
        for path in axis.paths
        if not axis.is_variable(path)
    }
    writer = _Writer(varied, seeds=study.study.seeds is not None)
    above = f"# Every key of {study.path.name}; names of files are relative to its folder."
    command = {"command": study.command.name, **writer.table(study.first(), study.keys, ())}
    tables = [
        (header, writer.table(model, given, path)) for header, model, given, path in writer.tables
    ]
    return toml_tables([(above, command), *tables, *_study(study)])


class _Writer:
    """Writer of tables; tables inside them are written later."""

    def __init__(self, varied: set[KeyPath], *, seeds: bool) -> None:
        self._varied = varied
        self._seeds = seeds
        self.tables: list[tuple[str, BaseModel, Mapping[str, Any], KeyPath]] = []

    def table(self, model: BaseModel, given: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
        """Return the values of a table, or comments in their place.

        `given`: the table as the file gives it.
        """
        data, values = model.model_dump(mode="json"), {}
        for key, about in type(model).model_fields.items():
            inner = (*path, key)
            if inner in self._varied:
                continue
            value: Any = getattr(model, key)
            raw: Any = given.get(key)
            if (isinstance(value, tuple) and value and isinstance(value[0], BaseModel)) or (
                value == () and is_list_of_tables(about.annotation)
            ):
                for number, each in enumerate(value):
                    self.tables.append((f"[[{key}]]", each, raw[number], (*inner, number)))
            elif isinstance(value, BaseModel):
                table = {"source": raw} if isinstance(raw, str) else raw or {}
                self.tables.append((f"[{key}]", value, table, inner))
            else:
                values[key] = self._value(key, data[key], given, about, inner)
        return values

    def _value(
        self, key: str, value: Any, given: Mapping[str, Any], about: FieldInfo, path: KeyPath
    ) -> Any:
        if any(each[: len(path)] == path for each in self._varied):  # some of its keys vary
            return given.get(key, {})
        if key in given and "$" in repr(given[key]):
            return given[key]
        if key == "seed" and self._seeds and key not in given:
            return Comment("that of the repetition")
        if value is None:
            usual = next((each.usual for each in about.metadata if isinstance(each, Option)), "")
            return Comment(usual or "none")
        return value


def _study(study: StudyFile) -> list[tuple[str, dict[Any, Any]]]:
    """Return the table ``[study]`` and the tables of what varies."""
    part = study.study
    seeds: Any = part.seeds
    if seeds == tuple(range(len(seeds or ()))) and seeds:
        seeds = len(seeds)
    own: dict[Any, Any] = {
        "title": study.title, "seeds": seeds, "baseline": part.baseline, "exclude": part.exclude,
        "measures": part.measures, "tables": part.tables, "run_seconds": part.run_seconds,
        "run_memory": part.run_memory,
    }  # fmt: skip
    none = Comment("none")
    tables = [("[study]", {key: none if each is None else each for key, each in own.items()})]
    for axis in study.axes:
        # All axes of the product come before those of zips.
        zipped = len(axis.paths) > 1 or tables[-1][0] == "[[study.zip]]"
        if zipped or len(tables) == 1:
            tables.append(("[[study.zip]]" if zipped else "[study.product]", {}))
        for at, path in enumerate(axis.paths):
            labels = [each[at] for each in axis.labels]
            values = [each[at] for each in axis.values]
            same = labels == [text_of(value) for value in values]
            # As a table if their labels are others.
            tables[-1][1][path] = values if same else dict(zip(labels, values, strict=True))
    return tables
