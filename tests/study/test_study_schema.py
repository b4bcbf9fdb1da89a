"""The JSON schema of files of studies: valid, and of one mind with the reader."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from test_study_file import MANY, SIMPLE, SWEEP
from test_study_mistakes import FILE, MISTAKES

from weft.study.command_registry import study_command
from weft.study.schema import schema

SCHEMA = schema()
VALIDATOR = Draft202012Validator(SCHEMA)
#: Mistakes that a schema cannot describe: they concern several values, or names and files.
NAMES = (
    "has no option", "did you mean '", "job.NAME", "needs size", "twice", "one length", "varies",
    "variable", "cycle", "no file", "nowhere", "requires level", "no value", "excluded", "size:",
    "size", "nothing called", "hardware, mtu", "another name", "of their own",
    "follows the options",
)  # fmt: skip


def test_the_schema_is_valid() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", [SIMPLE, MANY, SWEEP, FILE])
def test_right_files_are_accepted(text: str) -> None:
    VALIDATOR.validate(tomllib.loads(text))


@pytest.mark.parametrize("name", study_command.names())
def test_examples_are_accepted_and_keys_described(name: str) -> None:
    keys: dict[str, Any] = {"command": name, **study_command[name].facts["example"]}
    VALIDATOR.validate(keys)
    assert not VALIDATOR.is_valid({**keys, "unknown": 1})
    for table_name, table in SCHEMA["$defs"][name].items():
        for key, about in table["properties"].items():
            assert table_name == "Axes" or about.get("description"), (name, key)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [(old, new, text) for old, new, _, text in MISTAKES if not any(n in text for n in NAMES)]
    + [each[:2] + each[3:] for each in MISTAKES[:5]],
)
def test_mistakes_are_refused(old: str, new: str, message: str) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(FILE.replace(old, new, 1))), message


@pytest.mark.parametrize(
    ("command", "key", "right", "wrong"),
    [
        ("simulate", "eager", ["16KiB", 4096, "4 k", "$x"], ["16KHz", True, "x"]),
        ("simulate", "overhead", [10, 1.5, "2us", "3 min"], ["2KiB", [1]]),
        ("simulate", "level", ["flow", ["flow", "flit"], "$x"], ["flw", [], ["flw"]]),
        ("simulate", "fabric", ["xgft:2;2,2;1,2", {"source": "a"}], [3, {"sauce": "a"}]),
        ("sweep", "load", [0.5, [0.1, 0.2], "0.1:0.9:0.1"], [True, "half"]),
        ("flits", "size", [4, "1:0.5,4:0.5"], [True, [4]]),
        ("paper", "options", [{"k": [4, 8], "seeds": 2}], [[2], "seeds=2"]),
        ("compare", "samples", [5, "$n"], [0, "five", 1.5]),
    ],
)
def test_values_are_those_that_the_reader_takes(
    command: str, key: str, right: list[Any], wrong: list[Any]
) -> None:
    for value in right:
        assert VALIDATOR.is_valid({"command": command, key: value}), value
    for value in wrong:
        assert not VALIDATOR.is_valid({"command": command, key: value}), value
