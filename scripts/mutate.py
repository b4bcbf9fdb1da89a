"""Change the code in one place at a time and check whether a test fails.

    python scripts/mutate.py --number 200 --seed 1 --out mutants.csv

Works on a copy of the repository with its own kernel cache. Cache files are named after all code
that is compiled into a kernel, so only changed kernels are compiled again. A mutant that survives
needs a new test, or an explanation of why it behaves the same.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Source files -> tests that should fail after a change in them, the fastest first.
TARGETS = {
    "kernels/packet/*.py": (
        "tests/sim/test_packet_closed_forms.py tests/sim/test_packet_shares.py "
        "tests/sim/test_lane_arbitration.py tests/reference/test_packet_twin.py "
        "tests/reference/test_packet_policy_twins.py "
        "tests/reference/test_congestion_control_twin.py tests/sim/test_packet_policies.py"
    ),
    "sim/packet/policies/*.py": (
        "tests/sim/test_packet_policies.py tests/reference/test_packet_policy_twins.py "
        "tests/reference/test_packet_twin.py"
    ),
    "kernels/program/*.py": (
        "tests/workload/test_workload_operations.py tests/sim/test_flow.py "
        "tests/sim/test_flow_order.py tests/sim/test_flow_processors.py "
        "tests/reference/test_flow_twin.py tests/reference/test_order_twins.py "
        "tests/workload/test_workload*.py tests/reference/test_packet_twin.py"
    ),
    "kernels/flow/*.py": (
        "tests/reference/test_maxmin_twin.py tests/reference/test_penalty_twin.py "
        "tests/reference/test_contention_twin.py tests/reference/test_contention_times_twin.py "
        "tests/reference/test_flow_twin.py tests/sim/test_flow*.py "
        "tests/sim/test_contention_graph.py tests/sim/test_penalty_sharing.py"
    ),
    "kernels/routing/*.py": (
        "tests/reference/test_routing_twins.py tests/reference/test_balance_twins.py "
        "tests/reference/test_adaptive_twin.py "
        "tests/reference/test_ftree_twin.py tests/reference/test_hdor_twin.py "
        "tests/reference/test_torus_twins.py tests/reference/test_dor_twin.py "
        "tests/reference/test_lanes_twins.py tests/reference/test_nue_twin.py "
        "tests/routing/test_validator.py tests/routing/test_path_routes.py "
        "tests/routing/test_nue.py "
        "tests/routing/test_hdor.py tests/routing/test_torus_2qos.py tests/routing/test_lanes.py "
        "tests/kernels/test_tree_descent.py tests/reference/test_order_twins.py"
    ),
    "kernels/routes/*.py": (
        "tests/sim/test_metrics.py tests/reference/test_deadlock_twin.py "
        "tests/reference/test_multipath_twin.py tests/reference/test_phase_twins.py "
        "tests/reference/test_mixed_tables_twin.py "
        "tests/routing/test_path_routes.py tests/routing/test_validator.py "
        "tests/sim/test_phases.py "
        "tests/reference/test_routing_twins.py tests/reference/test_balance_twins.py "
        "tests/sim/test_static_workload.py tests/sim/test_multipath_loads.py"
    ),
    "routing/engines/*.py": (
        "tests/routing/test_routing.py tests/routing/test_dor.py tests/routing/test_dnup.py "
        "tests/routing/test_ftree.py tests/routing/test_hdor.py tests/routing/test_nue.py "
        "tests/routing/test_lanes.py tests/routing/test_torus_2qos.py "
        "tests/routing/test_torus_conf.py "
        "tests/routing/test_path_routes.py tests/sim/test_phases.py tests/reference/test_*twin*.py "
        "tests/routing/test_adaptive_engines.py tests/contract/test_engine_contract.py"
    ),
    "routing/validation/*.py": (
        "tests/routing/test_validator.py tests/sim/test_deadlock_cycle.py "
        "tests/reference/test_deadlock_twin.py tests/sim/test_phases.py "
        "tests/routing/test_path_routes.py tests/reference/test_routing_twins.py"
    ),
    "fabrics/formats/*.py": (
        "tests/fabrics/test_formats*.py tests/fabrics/test_load.py "
        "tests/property/test_formats_property.py"
    ),
    "routing/opensm/*.py": (
        "tests/routing/test_opensm*.py tests/routing/test_subnet_folder.py "
        "tests/routing/test_subnet_osmlog.py tests/routing/test_torus_conf.py "
        "tests/property/test_opensm_files_property.py tests/oracle/test_opensm_files.py "
        "tests/oracle/test_audit.py tests/oracle/test_export.py"
    ),
    "workload/formats/*.py": (
        "tests/workload/test_workload_files.py tests/workload/test_workload_tit.py "
        "tests/cli/test_convert_workloads.py tests/property/test_workload_files_property.py"
    ),
    "workload/trace/*.py": (
        "tests/workload/test_trace_programs.py tests/workload/test_trace_errors.py "
        "tests/workload/test_trace_commands.py tests/property/test_trace_property.py"
    ),
    "advice/plan_check/*.py": "tests/cli/test_check_cli.py tests/advice/test_plan_check.py",
    "fabrics/formats/cable_plan.py": "tests/fabrics/test_cable_plan.py tests/cli/test_check_cli.py",
}  # fmt: skip
#: Time limit of a mutant's tests in s, which detects endless loops.
LIMIT_S = 240

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*", ast.Mod: "+",
    ast.LShift: ">>", ast.RShift: "<<", ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "&",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """Replacement of the bytes `start` to `end` of a file, which begin on line `line`."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file.

    Parameters
    ----------
    path
        A Python source.
    """
    text = path.read_text()
    offsets = [0]
    for line in text.encode().splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    source = text.encode()

    def place(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            offsets[node.lineno - 1] + node.col_offset,
            offsets[node.end_lineno - 1] + node.end_col_offset,
        )

    for node in _code(ast.parse(text)):
        start, end = place(node)
        part = source[start:end].decode()
        for after in _replacements(node):
            yield Mutant(path, node.lineno, start, end, part, after)


def _code(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield executed expressions: not annotations, decorators, error messages or constants."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            parts: list[ast.AST | None] = [*node.decorator_list, node.returns, node.args]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
            parts = [node]
        else:
            parts = []
        for part in parts:
            if part is not None:
                skipped.update(id(each) for each in ast.walk(part))
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("__"):
            for node in ast.walk(function):
                if isinstance(node, ast.expr) and id(node) not in skipped:
                    skipped.add(id(node))
                    yield node


def _replacements(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
        yield f"({left} {COMPARISONS[type(node.ops[0])]} {right})"
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        yield f"({ast.unparse(node.left)} {OPERATORS[type(node.op)]} {ast.unparse(node.right)})"
    elif isinstance(node, ast.BoolOp):
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield "(" + word.join(f"({ast.unparse(each)})" for each in node.values) + ")"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield str(node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield str(not node.value)


def chosen(number: int, seed: int, only: str) -> list[tuple[Mutant, str]]:
    """Return random mutants, equally many per group of `TARGETS`, with the tests that should fail.

    Parameters
    ----------
    number
        Number of mutants.
    seed
        Seed of the choice.
    only
        Part of the names of the groups to use; all groups when empty.
    """
    rng = random.Random(seed)
    groups = {glob: tests for glob, tests in TARGETS.items() if only in glob}
    listed: list[tuple[Mutant, str]] = []
    for rank, (glob, tests) in enumerate(groups.items()):
        every = [
            mutant for path in sorted((ROOT / "src/weft").glob(glob)) for mutant in mutants_of(path)
        ]
        share = number // len(groups) + (rank < number % len(groups))
        listed += [(each, tests) for each in rng.sample(every, min(share, len(every)))]
    return listed


def noticed(copy: Path, mutant: Mutant, tests: str) -> tuple[str, str]:
    """Run the tests on a mutant: ``killed``, ``stopped`` or ``survived``, and the failed test.

    Parameters
    ----------
    copy
        The copy of the repository.
    mutant
        The change.
    tests
        Patterns of test files.
    """
    target = copy / mutant.path.relative_to(ROOT)
    source = target.read_bytes()
    target.write_bytes(source[: mutant.start] + mutant.after.encode() + source[mutant.end :])
    files = [str(path) for pattern in tests.split() for path in sorted(copy.glob(pattern))]
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy / "src"),
        "NUMBA_CACHE_DIR": str(copy / "kernels"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    words = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    try:
        ran = subprocess.run(
            [*words, "-m", "not slow", *dict.fromkeys(files)], cwd=copy, env=environment,
            capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "stopped", ""
    finally:
        target.write_bytes(source)
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if ran.returncode == 0:
        return "survived", ""
    return "killed", failed[0].split()[1].partition("[")[0] if failed else "at import"


def main() -> int:
    """Run the mutants, print one line for each, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a group's name, such as kernels/packet")
    parser.add_argument("--out", type=Path, help="CSV file; lines are added as mutants end")
    options = parser.parse_args()
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "weft"
        kept = shutil.ignore_patterns(".git", ".venv", "_build", "__pycache__", "out")
        shutil.copytree(ROOT, copy, ignore=kept)
        for mutant, tests in chosen(options.number, options.seed, options.only):
            start = time.perf_counter()
            result, by = noticed(copy, mutant, tests)
            counts[result] = counts.get(result, 0) + 1
            name = mutant.path.relative_to(ROOT / "src/weft")
            row = [
                result, str(name), mutant.line, " ".join(mutant.before.split()), mutant.after, by,
                f"{time.perf_counter() - start:.0f}",
            ]  # fmt: skip
            print(*row, sep=" | ", flush=True)
            if options.out is not None:
                with options.out.open("a", newline="") as file:
                    csv.writer(file).writerow(row)
    print(", ".join(f"{number} {result}" for result, number in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
