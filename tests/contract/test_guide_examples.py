"""The examples of the guide on extensions pass the contracts of their kinds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.processes import PATIENCE_S

ROOT = Path(__file__).parents[2]
KINDS = ("application", "pattern", "placement", "study_command", "topology")
NAMES = ("backwards", "diameter", "reversal", "star", "to-first")


def test_the_guides_examples_pass_the_contract_tests(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guides" / "extend.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "guide_examples.py").write_text("\n".join(blocks))
    files = [ROOT / "tests" / "contract" / f"test_{kind}_contract.py" for kind in KINDS]
    alone = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "guide_examples", "-p", "no:cacheprovider",
         "-c", ROOT / "pyproject.toml", *files, "-k", " or ".join(NAMES)],
        cwd=tmp_path, env={**alone, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-3000:]
    assert int(re.findall(r"(\d+) passed", process.stdout)[0]) > 60
