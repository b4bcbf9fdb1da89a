"""The JSON schema of files of studies, for editors."""

from __future__ import annotations

from typing import Any

from weft.study.command_registry import study_command
from weft.study.spec import USUAL_COMMAND, file_model


def schema() -> dict[str, Any]:
    """Return the JSON schema of a file: one alternative for each command."""
    definitions: dict[str, Any] = {}
    alternatives = []
    for entry in study_command:
        model = file_model(entry.name).model_json_schema(
            ref_template=f"#/$defs/{entry.name}/{{model}}"
        )
        own = model.pop("$defs", {})
        required = [name for name in model.get("required", ()) if name == "command"]
        if entry.name != USUAL_COMMAND:
            required.append("command")
        # Keys may also be given as lists in study.product, so none is required here.
        model["required"] = required
        definitions[entry.name] = {name: _lenient(each) for name, each in own.items()}
        alternatives.append(_lenient(model))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Study of weft",
        "oneOf": alternatives,
        "$defs": definitions,
    }


def _lenient(node: Any) -> Any:
    """Allow single values where lists are expected, as the reader of files does."""
    if isinstance(node, list):
        return [_lenient(each) for each in node]
    if not isinstance(node, dict):
        return node
    changed = {name: _lenient(each) for name, each in node.items()}
    items = changed.get("items")
    if changed.get("type") == "array" and isinstance(items, dict) and "$ref" not in items:
        kept = {
            name: changed.pop(name)
            for name in ("title", "description", "default")
            if name in changed
        }
        return {**kept, "anyOf": [items, changed]}
    return changed
