"""The walk through `weft serve` with curl in its documentation, run line by line."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S
from tests.serve_runs import Served
from tests.serve_services import FABRIC

from weft.subnet.service import errors

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return found


def test_the_walk_with_curl_runs_and_answers_as_it_says(served: Served) -> None:
    require_tools("curl")
    walk = (DOCS / "serve.md").read_text().partition("## With curl")[2].partition("\n## ")[0]
    start, _, *steps = blocks(walk, "sh")  # the second sets address and token
    assert start.startswith(f"weft serve '{FABRIC}' --tokens ")
    # After each block an empty line, so that answers are apart.
    script = "set -e\n" + "\n".join(f"{step}\necho" for step in steps)
    run = subprocess.run(
        ["sh", "-c", script.replace("curl ", "curl --fail-with-body -w '\\n' ")],
        env=served.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    with served.client() as client:
        assert not client.state().applications
    answers = [json.loads(line) for line in run.stdout.splitlines() if line.strip()]
    assert len(answers) == 5  # the removal answers nothing
    placed, grant, renewal, returned, advice = answers
    assert renewal["grants"][0]["phase"] == returned["phase"] == "halo"
    # The answers on the page, whose tokens and times differ and whose long lists are cut.
    for text, answer in zip(blocks(walk, "json"), (placed, grant, advice), strict=True):
        _same(json.loads(text), answer)


def _same(shown: object, answer: object) -> None:
    if isinstance(shown, dict):
        assert isinstance(answer, dict)
        assert shown.keys() == answer.keys()
        for key, value in shown.items():
            if key not in ("token", "since_ns", "until_ns"):
                _same(value, answer[key])
    elif isinstance(shown, list):
        assert isinstance(answer, list)
        for one, other in zip(shown, answer, strict=False):
            _same(one, other)
    else:
        assert shown == answer


def test_every_refusal_is_in_the_table_of_errors_with_its_status() -> None:
    table = (DOCS / "serve.md").read_text().partition("## Errors")[2].partition("\n## ")[0]
    shown = {
        code: row
        for row in re.findall(r"^\| \d.*$", table, re.MULTILINE)
        for code in re.findall(r"`([a-z_]+)`", row)
    }
    source = "".join(path.read_text() for path in Path(errors.__file__).parent.glob("*.py"))
    true = dict.fromkeys(re.findall(r"Refused\(\s*\"([a-z_]+)\"", source), 409)
    true |= errors._STATUS | {code: status for status, code in errors._NAMES.items()}
    found = re.findall(r"(?:Denied|_answer|_refuse)\((?:send, )?(\d+), \"([a-z_]+)\"", source)
    true |= {code: int(status) for status, code in found}
    for code in ("clock_backwards", "already_made", "other_state"):  # never of a request
        del true[code]
    assert len(true) > 20
    assert true.keys() == shown.keys()
    for code, status in true.items():
        assert str(status) in shown[code].split("|")[1], code
