"""The JSON schema of files of studies, for editors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from weft.core.settings import settings
from weft.core.toml_lines import table_in
from weft.study.axes import is_list_of_tables
from weft.study.command_registry import measures_of, study_command
from weft.study.spec import USUAL_COMMAND, StudyPart, file_model

#: Names of limits of pydantic, where it does not translate them.
_LIMITS = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
#: A text with a variable may stand for any value.
_VARIABLE = {"type": "string", "pattern": r"\$"}
_SCALAR = {"type": ["string", "number", "boolean"]}


def schema() -> dict[str, Any]:
    """Return the JSON schema of a file (draft 2020-12): one alternative for each command."""
    definitions: dict[str, Any] = {}
    alternatives = []
    for entry in study_command:
        definitions[entry.name] = own = {}
        model = file_model(entry.name)
        whole = model.model_json_schema(ref_template=f"#/$defs/{entry.name}/{{model}}")
        known = whole.pop("$defs", {})
        for kind in _tables(model):
            if kind.__name__ in known:
                own[kind.__name__] = _table(kind, known[kind.__name__])
        study = own[StudyPart.__name__]["properties"]
        own["File"] = _table(model, whole)
        own["Axes"] = _axes(model, own, f"#/$defs/{entry.name}")
        axes = {"$ref": f"#/$defs/{entry.name}/Axes"}
        study["product"] = {**axes, "description": study["product"]["description"]}
        study["zip"]["items"] = axes
        study["seeds"] = {
            "description": study["seeds"]["description"],
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1,
                 "uniqueItems": True},
            ],
        }  # fmt: skip
        for name, names in (
            ("measures", [each.name for each in measures_of(entry.name)]),
            ("tables", list(entry.facts["tables"])),
        ):
            one = {"enum": names} if names else False
            many = {"type": "array", "items": one, "uniqueItems": True}
            study[name] = {"description": study[name]["description"], "anyOf": [one, many]}
        # Keys may also be given in study.product, so none is required here.
        own["File"] |= {"title": f"weft {entry.name}", "description": entry.summary}
        own["File"]["required"] = ["command"] if entry.name != USUAL_COMMAND else []
        alternatives.append({"$ref": f"#/$defs/{entry.name}/File"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Study of weft",
        "oneOf": alternatives,
        "$defs": definitions,
    }


def _tables(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models of all tables in a table."""
    for about in model.model_fields.values():
        inner = table_in(about.annotation)
        if inner is not None:
            yield inner
            yield from _tables(inner)


def _table(kind: type[BaseModel], node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a table, in which variables and single values are allowed."""
    meanings = {item.key: item.help for item in settings(kind)}
    properties = {}
    for name, each in node["properties"].items():
        meaning = each.get("description") or meanings.get(name, "")
        properties[name] = {**_value(each), "description": meaning.replace("``", "`")}
    return {
        "type": "object",
        "description": (kind.__doc__ or "").partition("\n")[0],
        "additionalProperties": False,
        "properties": properties,
    }


def _value(node: Any) -> Any:
    """Return the schema of a value, or of a text with a variable in its place."""
    plain = _plain(node)
    inner = plain.get("anyOf", [plain])
    if any(each in plain for each in ("$ref", "items")) or plain.get("type") == "object":
        return plain
    if any(each.get("type") == "string" and not {"pattern", "enum"} & {*each} for each in inner):
        return plain  # any text
    about = {name: plain.pop(name) for name in ("description", "default") if name in plain}
    return {**about, "anyOf": [plain, _VARIABLE]}


def _plain(node: Any) -> Any:
    """Return a schema with the names of JSON, and single values where lists are expected."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    changed = {
        _LIMITS.get(name, name): _plain(each)
        for name, each in node.items()
        if name not in ("title", "prefixItems", "maxItems") or node.get("type") == "object"
    }
    if isinstance(changed.get("anyOf"), list):  # TOML has no null
        changed["anyOf"] = [each for each in changed["anyOf"] if each != {"type": "null"}]
    if "default" in changed and changed["default"] is None:
        del changed["default"]
    if changed.get("type") == "array" and "minLength" in changed:
        changed["minItems"] = changed.pop("minLength")
    items = changed.get("items")
    if changed.get("type") == "array" and isinstance(items, dict) and "$ref" not in items:
        items = changed["items"] = _value(items)
        about = {n: changed.pop(n) for n in ("description", "default") if n in changed}
        return {**about, "anyOf": [items, changed]}
    return changed


def _axes(model: type[BaseModel], own: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the schema of a table of axes.

    `own`: name of a table -> its schema.
    """
    axes: dict[str, Any] = {}
    patterns: dict[str, Any] = {r"^\$[A-Za-z_]\w*$": _lists(_SCALAR)}
    for name, about in model.model_fields.items():
        inner = table_in(about.annotation)
        if name in ("command", "study"):
            continue
        axes[name] = _lists({"$ref": f"{where}/File/properties/{name}"})
        if is_list_of_tables(about.annotation):
            axes[name] = {"type": "object"}
            patterns[rf"^{name}\."] = _lists({})
        elif inner is not None:
            table = inner.__name__
            nested = {}
            for key in own[table]["properties"]:
                axes[f"{name}.{key}"] = _lists({"$ref": f"{where}/{table}/properties/{key}"})
                nested[key] = {"$ref": f"{where}/Axes/properties/{name}.{key}"}
            axes[name]["anyOf"].append(
                {"type": "object", "additionalProperties": False, "properties": nested}
            )
        elif own["File"]["properties"][name].get("type") == "object":  # any keys
            axes[name]["anyOf"].append({"type": "object", "additionalProperties": _lists({})})
            patterns[rf"^{name}\."] = _lists({})
    return {
        "type": "object", "additionalProperties": False, "properties": axes,
        "patternProperties": patterns,
    }  # fmt: skip


def _lists(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of values, or of a table label = value."""
    return {
        "anyOf": [
            {"type": "array", "minItems": 1, "items": value},
            {"type": "object", "minProperties": 1, "additionalProperties": value},
        ]
    }
