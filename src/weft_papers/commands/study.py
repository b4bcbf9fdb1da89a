"""Studies of `weft paper`: the claims of papers beside the measured values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_type_hints

import polars as pl
from pydantic import Field

from weft.core.columns import Column
from weft.core.errors import InputError
from weft.core.settings import Number, Truth
from weft.study.checks import Files, WrongKey, check_distinct, check_with
from weft.study.command_registry import Point, Watch, study_command
from weft.study.experiment.spec import Names, Part
from weft.study.measures import measures, values
from weft.study.runs.task import RunResult
from weft_papers.claims import Verdict
from weft_papers.paper_registry import paper as papers

_VERDICTS = {
    "hold": Verdict.HOLDS, "fail": Verdict.FAILS, "undecided": Verdict.UNDECIDED,
    "cannot_tell": Verdict.CANNOT_TELL, "not_measured": Verdict.NOT_MEASURED,
}  # fmt: skip
_COLUMNS = {
    f"claims_{name}": Column(pl.Int64, "", f"Verdicts on claims that are '{verdict}'")
    for name, verdict in _VERDICTS.items()
} | {"claims": Column(pl.Int64, "", "Verdicts on claims, one for each claim and choice")}
MEASURES = measures(_COLUMNS, higher=("claims_hold",), lower=("claims_fail",))
#: Options that concern files and processes, not the result.
_NOT = ("out", "processes")


def _claims() -> dict[str, Column]:
    """Return the columns of the claims of all papers."""
    columns: dict[str, Column] = {}
    for entry in papers:
        result = get_type_hints(entry.function)["return"]
        columns |= getattr(result, "columns", {}).get("claims", {})
    return columns


class PaperKeys(Part):
    """Studies of papers, each of which is a run.

    Parameters
    ----------
    paper
        Names of papers, as in ``weft list papers``.
    options
        Options of the study, as ``weft paper`` has them.
    """

    paper: Names
    options: dict[str, Truth | Number | str | list[int | float | str]] = Field(default_factory=dict)


def points(keys: PaperKeys, files: Files) -> list[Point]:
    """Return a run for each paper."""
    found = []
    names = []
    for number, name in enumerate(keys.paper):
        check_with(("paper", number), papers.__getitem__, name)
        entry = papers[name]
        names.append(entry.name)
        for option, value in keys.options.items():
            path = ("options", option)
            if option in _NOT:
                raise WrongKey(f"options: {option} is not an option of a study", path)
            try:
                papers.bind(entry, {option: value})
            except InputError as error:
                raise WrongKey(error.message, path) from None
        found.append(Point({"paper": entry.name}, {"paper": entry.name, "options": keys.options}))
    check_distinct(names, "paper")
    return found


def seeded(parameters: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Put a seed into the options of the study of a paper."""
    options = parameters["options"]
    takes = papers[parameters["paper"]].options
    name = next((each for each in ("seed", "first_seed") if each in takes), None)
    if name is None or name in options:
        return dict(parameters)
    return {**parameters, "options": {**options, name: seed}}


@study_command(
    "paper",
    keys=PaperKeys,
    points=points,
    measures=MEASURES,
    tables={"claims": _claims(), "text": {"line": Column(pl.String, "", "Line of the text")}},
    seeded=seeded,
    example={
        "paper": "multipath-ecmp", "options": {"seeds": 2, "flows": 200, "k": [4, 8]},
    },
)  # fmt: skip
def paper(parameters: Mapping[str, Any], watch: Watch) -> RunResult:
    """Run the study of a paper, as `weft paper` does."""
    entry = papers[parameters["paper"]]
    # Not from `points` if it is a run of a store again, which must write nothing.
    options = {name: each for name, each in parameters["options"].items() if name not in _NOT}
    if "processes" in entry.options:
        options["processes"] = 1
    watch(None)
    study = entry.function(**papers.bind(entry, options))
    if study.partial:
        raise KeyboardInterrupt
    claims = getattr(study, "claims_frame", None)
    tables = {}
    row: dict[str, Any] = {}
    if claims is not None:
        counts = {str(verdict): int((claims["verdict"] == verdict).sum()) for verdict in Verdict}
        row = {f"claims_{name}": counts[str(verdict)] for name, verdict in _VERDICTS.items()}
        row["claims"] = len(claims)
        if "claims" in parameters["tables"]:
            tables["claims"] = claims
    if "text" in parameters["tables"]:
        tables["text"] = pl.DataFrame({"line": study.text().splitlines()})
    return RunResult(values(MEASURES, row), tables)
