"""The event loop calls a policy of another distribution, and is not compiled again for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import weft

#: Runs policies in a process that has the plug-in, and prints the results.
RUNS = """
import json
import weft
from weft.kernels.packet.engine import run as loop
from weft.sim.packet.policies import policy

def run(policy, engine="ecmp"):
    fabric = weft.fabric("xgft:2;2,2;1,2")
    builder = weft.WorkloadBuilder(4)
    builder.put(0, 2, 20_000)
    routes = weft.route(fabric, engine)
    return weft.simulate(
        fabric, routes, builder.build(), level="packet", policy=policy, trace=[0]
    )

def seen(result):
    leaf = int(result.fabric.link_to[result.fabric.link_from == result.fabric.host_nodes[0]][0])
    up = (result.fabric.link_from == leaf) & (result.fabric.link_to < result.fabric.num_switches)
    hop = result.hop[up[result.hop["link"]]]
    return {"end": result.end_ps, "up": hop["link"].tolist()}
"""
REPORT = """
print(json.dumps({
    "names": policy.names(), "ecmp": seen(run("ecmp")), "adaptive": seen(run("adaptive")),
    "turn": seen(run("in-turn")), "later": seen(run("in-turn:begin=1")),
    "loops": len(loop.signatures),
}))
try:
    run("in-turn", "dmodk")
except weft.core.errors.NotApplicable as error:
    print(error)
"""


def plugin_source() -> str:
    """Return the source of the example policy in the documentation."""
    text = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    block = re.search(r"```python\n(.*?@policy\(.*?)```", text, re.DOTALL)
    assert block
    return block[1]


def test_a_policy_of_another_distribution_needs_only_one_file(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(plugin_source())
    described = tmp_path / "theirs-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[weft.policies]\nin-turn = theirs\n")
    paths = [str(tmp_path), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(
        [sys.executable, "-c", RUNS + REPORT], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed, refused = done.stdout.splitlines()
    results: dict[str, Any] = json.loads(printed)
    assert "in-turn" in results["names"]
    assert "leaves no choice of paths to policy in-turn" in refused
    # The leaf switch sends packets via its two uplinks alternately.
    for name in ("turn", "later"):
        up = results[name]["up"]
        assert len(up) == 10
        assert len(set(up)) == 2
        assert all(one != other for one, other in pairwise(up))
    assert results["turn"]["up"][0] != results["later"]["up"][0]
    assert results["loops"] == 1
    # The other policies give the same results without the plug-in.
    here: dict[str, Any] = {}
    exec(RUNS, here)
    for name in ("ecmp", "adaptive"):
        assert here["seen"](here["run"](name)) == results[name]
    assert weft.sim.packet.policies.policy.names() == [
        each for each in results["names"] if each != "in-turn"
    ]
