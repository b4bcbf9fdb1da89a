"""Commands: tables, recommendations, warnings and what they say of engines that do not fit."""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

from weft.advice.compare import USERS, compare
from weft.advice.comparison import Gain
from weft.cli import main
from weft.cli.compare import advice
from weft.cli.listing import KINDS, with_defaults
from weft.core.registry import Entry
from weft.fabrics.load import fabric
from weft.routing.opensm.guids import read_guids

TREE = "xgft:2;4,4;1,4"


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(list(words))
    out, err = capsys.readouterr()
    return status, out, err


def test_compare_prints_engines_patterns_and_the_best_engine(capsys) -> None:
    status, out, _ = run(capsys, "compare", TREE, "--samples", "20")
    assert status == 0
    for word in ("dmodk", "minhop", "updn", "ecmp", "all-to-all", "bit-reversal"):
        assert word in out
    assert re.search(r"Best valid engine: \w+, with [\d.]+% of the injection rate", out)
    assert "Its most contended link under all-to-all: " in out


@pytest.mark.slow
def test_equal_engines_are_named_with_the_deadlock_free_one_first(capsys) -> None:
    _, out, _ = run(capsys, "compare", "examples/cluster.ibnetdiscover", "--samples", "200")
    match = re.search(
        r"^Best valid engine: updn, with .* bisections; (.*) are equally good\. "
        r"ar_updn gets .* with NVIDIA's subnet manager: routing_engine ar_updn\.$", out, re.M,
    )  # fmt: skip
    assert match
    # nue and dfsssp:balance=opensm, whose routes differ, are not among them.
    assert match[1] == "dfsssp, dnup, lash, minhop, sssp"
    assert re.search(r"row dfsssp:balance=opensm; sssp:balance=opensm is equally good", out)
    rows = re.findall(r"^│ (\S+) +│ +yes", out, re.M)
    assert rows[:7] == ["ar_updn", "updn", "dnup", "lash", "dfsssp", "minhop", "sssp"]
    result = compare(fabric("kns:k=6,n=2"), samples=20)
    best = result.best
    assert best is not None
    assert best.name == "lash"
    equals = {other.name for other in result.equals(best, result.candidates)}
    assert equals == {"dfsssp", "dor", "hdor", "minhop", "nue", "sssp"}


def test_opensm_engines_within_the_confidence_interval_of_the_best_are_named() -> None:
    result = compare(fabric("torus:4x4"), samples=5)
    (line,) = (line for line in advice(result) if line.startswith("Best engine of OpenSM"))
    best = result.best_of_opensm
    assert best is not None
    assert best.bisection is not None
    within = line.partition("; ")[2].removesuffix(" is within its 95 % interval.")
    means = {o.name: o.bisection.mean for o in result.valid_of_opensm[1:] if o.bisection}
    low = best.bisection.interval[0]
    assert [name for name, mean in means.items() if mean >= low] == [within]
    # With many samples the interval contains only the best engine.
    few = compare(fabric("torus:4x4"), ["torus-2QoS:balance=opensm", "dfsssp"], samples=500)
    assert "its 95 % interval" not in " ".join(advice(few))


def test_lanes_that_opensm_cannot_load_are_not_recommended() -> None:
    """OpenSM programs such lanes only with its own torus-2QoS, which computes other tables."""
    result = compare(fabric("torus:4,6"), ["torus-2QoS", "torus-2QoS:balance=opensm"], samples=200)
    text = " ".join(advice(result))
    assert "Best valid engine: torus-2QoS:balance=opensm, with" in text
    assert "but with lanes that OpenSM cannot load." in text
    assert "Recommended: OpenSM's own torus-2QoS" in text
    assert "torus-2QoS gets" in result.page().answer
    # Where OpenSM's engine computes the same tables, it can program the lanes.
    same = advice(compare(fabric("torus:5,5"), ["torus-2QoS"], ["all-to-all"], samples=20))
    assert any(line.startswith("Recommended: OpenSM's own torus-2QoS") for line in same)
    assert "Static tables" not in " ".join(same)


def advised(spec: str, *engines: str, samples: int = 50) -> list[str]:
    result = compare(fabric(spec), engines or None, ["all-to-all"], samples=samples)
    lines = advice(result)
    start = next((n for n, line in enumerate(lines) if line.startswith("Recommended")), len(lines))
    return lines[start:]


def test_opensm_engines_are_recommended_unless_static_tables_gain_enough() -> None:
    (line,) = advised("leaf-spine:leaves=24,spines=4,hosts=4", "updn", "ftree", "minhop")
    assert line == (
        "Recommended: OpenSM's own ftree: routing_engine ftree in opensm.conf (opensm -R ftree). "
        "OpenSM reroutes when a cable or switch fails. Static tables of weft's updn are not "
        "rerouted, and have the same figures."
    )
    listed = "updn:roots=auto;balance=opensm"
    (line,) = advised("leaf-spine:leaves=24,spines=4,hosts=4", listed)
    assert (
        "routing_engine updn, root_guid_file FILE in opensm.conf (opensm -R updn -a FILE)" in line
    )
    assert "FILE lists 4 roots (spine0, spine1, spine2 and 1 more), written by weft comp" in line
    (line,) = advised("leaf-spine:leaves=4,spines=2,hosts=4", "updn:balance=opensm")
    assert "(opensm -R updn), which finds the 2 roots itself: spine0, spine1." in line
    (line,) = advised("kns:k=3,n=2", "dor", "dfsssp")
    assert "fails; freedom from deadlock is proven for the present fabric only" in line

    tables, given_up, keep = advised("torus:4x4", "dfsssp", "dfsssp:balance=opensm")
    assert re.match(
        r"Recommended: static tables of weft's dfsssp: weft opensm export FABRIC --engine dfsssp "
        r"--out DIR\. Over OpenSM's own dfsssp they give \+[\d.]+% bisection bandwidth \(95 % "
        r"interval \+[\d.]+% to \+[\d.]+%\) and 8 instead of \d+ flows on the most loaded link",
        tables,
    )
    assert given_up.startswith(
        "Drawback: static tables do not change when a cable or switch fails."
    )
    assert keep.endswith("routing_engine dfsssp, qos TRUE in opensm.conf (opensm -R dfsssp -Q).")

    (line, _) = advised("torus:4x4", "dfsssp")
    assert line.endswith("No engine of OpenSM itself was compared.")
    (line, _) = advised("torus:4x4", "dfsssp", "minhop:balance=opensm")
    assert line.endswith("No compared engine of OpenSM itself is valid.")
    assert advised("bcube:n=3,k=1", "minhop", "minhop:balance=opensm") == []


def test_gains_are_compared_with_the_spread_of_the_samples() -> None:
    assert not Gain(0.2, 0.049, 0.3, 100, 100).significant
    assert Gain(0.06, 0.05, 0.07, 100, 100).significant
    assert not Gain(0.0, 0.0, 0.0, 76, 100).significant
    assert Gain(0.0, 0.0, 0.0, 75, 100).significant
    assert not Gain(0.5, math.nan, math.nan, 100, 100).significant
    result = compare(fabric("torus:4x4"), ["dfsssp", "dfsssp:balance=opensm"], ["shift"], samples=9)
    one, other = result.outcomes
    assert one.bisection
    assert other.bisection
    same = result.gain(one, one)
    assert (same.bandwidth, same.low, same.high) == (0, 0, 0)
    estimate = result.gain(one, other)
    # Both engines are measured on the same bisections, so the difference varies less than a share.
    share = one.bisection.per_sample / other.bisection.mean
    share -= other.bisection.per_sample / other.bisection.mean
    half = 2.306 * share.std(ddof=1) / 3  # Student's t, eight degrees of freedom
    assert estimate.bandwidth == pytest.approx(share.mean())
    assert (estimate.low, estimate.high) == pytest.approx(
        (share.mean() - half, share.mean() + half), 1e-3
    )


def test_roots_are_written_for_opensm(tmp_path: Path, capsys) -> None:
    words = ("compare", "leaf-spine:leaves=3,spines=2,hosts=2", "--samples", "2")
    path = tmp_path / "roots"
    for name in ("updn", "ar_updn"):
        assert run(capsys, *words, "--engine", f"{name},minhop", "--roots", str(path))[0] == 0
        assert read_guids(fabric(words[1]), path, kind="root").tolist() == [3, 4]
        path.unlink()
    status, _, error = run(capsys, *words, "--engine", "minhop", "--roots", str(tmp_path / "none"))
    assert status == 2
    assert "--roots: no compared updn engine fits" in error
    assert not (tmp_path / "none").exists()


def test_compare_says_why_engines_and_patterns_do_not_fit(capsys) -> None:
    _, out, _ = run(capsys, "compare", "ring:7", "--samples", "5")
    assert "ar_ftree, ftree do not fit: " in out
    # Engines that refuse in the same words are named together.
    assert re.search(r"^dmodk, smodk do not fit: .* connects two switches of level 1", out, re.M)
    assert "ar_updn, updn do not fit: no roots found: no switch has nearly" in out
    assert "updn:balance=opensm: no roots found; OpenSM falls back to minhop" in out
    assert "updn:roots=center" in out
    # Patterns of bits take the most hosts that they fit.
    assert "bit-reversal: Among the first 4 of 7 hosts." in out
    assert "transpose: Among the first 4 of 7 hosts." in out
    assert "the routes can deadlock" in out


def test_compare_twice_gives_the_same_output_and_files(capsys, tmp_path: Path) -> None:
    outputs = []
    for number in range(2):
        page, table = tmp_path / f"{number}.html", tmp_path / f"{number}.csv"
        words = ["compare", TREE, "--samples", "5", "--seed", "3", "--random-cables", "2"]
        status, out, err = run(
            capsys, *words, "--report", str(page), "--table", str(table), "--engines", "minhop,ecmp"
        )
        assert status == 0
        outputs.append((out.replace(str(page), ""), err, page.read_bytes(), table.read_bytes()))
    assert outputs[0] == outputs[1]
    frame = pl.read_csv(tmp_path / "0.csv")
    assert sorted(frame["engine"]) == ["ecmp", "minhop"]
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*"))


def test_compare_writes_parquet_and_times_on_request(capsys, tmp_path: Path) -> None:
    path = tmp_path / "engines.parquet"
    words = ("compare", TREE, "--samples", "2", "--table", str(path), "--timing")
    status, _, err = run(capsys, *words, "--engine", "dmodk", "--pattern", "shift:offset=3")
    assert status == 0
    assert re.search(r"dmodk routed in [\d.]+ ms", err)
    assert pl.read_parquet(path)["valid"].to_list() == [True]


def test_compare_takes_engines_and_patterns_parted_by_commas(capsys) -> None:
    words = ("compare", TREE, "--samples", "2", "--patterns", "tornado,shift:offset=3")
    status, out, _ = run(capsys, *words, "--engines", "minhop,updn:roots=center")
    assert status == 0
    for cell in ("┃ tornado ", "┃ shift:offset=3 ", "│ minhop ", "│ updn:roots=center "):
        assert cell in out
    assert "dmodk" not in out


def test_a_fabric_that_no_engine_can_route_gives_status_1(capsys) -> None:
    status, out, _ = run(capsys, "compare", "ring:6", "--engine", "minhop", "--samples", "2")
    assert status == 1
    assert "No engine gives valid routes" in out


def test_a_disconnected_fabric_is_compared_within_its_parts(capsys) -> None:
    status, out, _ = run(capsys, "compare", TREE, "--fail-switch", "s1-0", "--samples", "2")
    assert status == 0
    assert "Best valid engine: " in out
    assert "108 host pairs are not connected by cables" in out


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns", [80, 100, 120, 140])
def test_a_narrow_terminal_does_not_cut_the_main_figures(
    capsys, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr("weft.cli.compare.console", lambda: Console(width=columns, highlight=False))
    _, out, _ = run(capsys, "compare", TREE, "--samples", "20")
    assert "…" not in out
    assert re.search(r"│ dmodk +│ +yes │ +0 │.* 0\.\d{3} ±0\.\d{3} │ +12\.00 │", out)


@pytest.mark.parametrize("columns", [80, 100, 120, 140, 180])
def test_names_of_engines_that_fit_are_not_cut(
    capsys, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    name = "torus-2QoS:balance=opensm"
    words = ("compare", "torus:4x4", "--samples", "5", "--engines", name)
    _, out, _ = run(capsys, *words)
    engines, _, patterns = out.partition("Largest contention")
    assert f"│ {name} │ " in engines
    assert f"│ {name} │ " in patterns
    assert all(len(row) <= columns for row in out.splitlines() if row[:1] in set("┏┃┡│└"))
    assert ("minimal" in engines) == (columns == 180)


def test_compare_accepts_slow_cables_and_two_way_bisections(capsys) -> None:
    words = ("compare", TREE, "--engine", "minhop", "--samples", "50")
    _, plain, _ = run(capsys, *words)
    _, slow, _ = run(capsys, *words, "--slow-cable", "s1-0[5]=1xHDR")
    assert "1 × 1xHDR, 31 × 4xHDR" in slow
    _, both, _ = run(capsys, *words, "--two-way")
    shares = [re.search(r"(0\.\d+) ±", out) for out in (plain, slow, both)]
    assert all(shares)
    one, slowed, two = (float(match[1]) for match in shares if match)
    assert slowed < one
    assert two < one


def test_writers_take_their_options(capsys) -> None:
    _, with_hosts, _ = run(capsys, "convert", TREE, "--to", "graphviz")
    _, without, _ = run(capsys, "convert", TREE, "--to", "graphviz:hosts=false")
    assert "h3" in with_hosts
    assert "h3" not in without


@pytest.mark.sampled(1)
@pytest.mark.parametrize("listed", [None, 0], ids=["by flow", "by switch"])
def test_users_of_a_link_list_each_flow_once(
    monkeypatch: pytest.MonkeyPatch, listed: int | None
) -> None:
    tree = fabric("leaf-spine:leaves=24,spines=6,hosts=8")
    engines = ("minhop", "updn", "dfsssp")
    full = compare(tree, engines, samples=2)
    if listed is not None:
        # No flows are listed, as on a fabric whose all-to-all has too many.
        monkeypatch.setattr("weft.advice.compare.MAX_LISTED_FLOWS", listed)
    result = compare(tree, (*engines, "ecmp"), samples=2)
    named = {run.engine: run for run in full.runs if run.pattern == "all-to-all"}
    for analysis in result.runs:
        assert (analysis.engine == "ecmp") == (not analysis.users) == bool(analysis.no_users)
        for link, users in analysis.users.items():
            for ranking in (users.pairs, users.sources, users.destinations):
                assert ranking.flows.sum() == analysis.flows[link]
                assert ranking.count == len(ranking.nodes)
            if analysis.pattern == "all-to-all" and analysis.flows[link] > USERS:
                before = named[analysis.engine].users[link]
                assert users.pairs.nodes.tolist() == before.pairs.nodes.tolist()
                assert users.pairs.flows.tolist() == before.pairs.flows.tolist()


def test_the_page_names_the_best_engine_and_the_reason() -> None:
    tree, few = fabric("leaf-spine:leaves=6,spines=2,hosts=4"), ("all-to-all",)
    text = compare(tree, ("minhop", "updn", "dor", "ecmp"), few, samples=50).page().answer
    assert text.startswith("Best engine: updn. ")
    assert "the same as with minhop." in text
    assert "because it is deadlock-free on any fabric, unlike minhop." in text
    why, _, what = text.partition(" Recommended: ")
    assert "dor" not in why
    assert what.startswith("static tables of weft's updn: weft opensm export")
    text = compare(tree, ("updn", "dor"), few, samples=50).page().answer
    assert "more than with any other valid engine; next is dor with" in text
    text = compare(fabric("ring:6"), ("minhop",), few, samples=5).page().answer
    assert text.startswith("No engine gives valid routes")


def test_adaptive_routes_are_compared_with_their_static_fallback(capsys) -> None:
    patterns = ("all-to-all", "shift", "bit-reversal", "hot-spot")
    tree = fabric("xgft:2;8,8;1,4")
    result = compare(tree, ("ar_updn", "ar_ftree", "ecmp", "updn"), patterns, samples=20)
    engines = {row["engine"]: row for row in result.table.iter_rows(named=True)}
    assert {name: row["routing"] for name, row in engines.items()} == {
        "ar_updn": "adaptive", "ar_ftree": "adaptive", "ecmp": "adaptive", "updn": "static"
    }  # fmt: skip
    assert {row["nvidia_sm"] for row in engines.values()} == {
        "ar_updn", "ar_ftree", None
    }  # fmt: skip
    # The static fallback of ar_updn is updn.
    assert engines["ar_updn"]["static_ebb"] == engines["updn"]["ebb"] < engines["ar_updn"]["ebb"]
    assert engines["ecmp"]["static_ebb"] is engines["updn"]["static_ebb"] is None
    rows = {(r["engine"], r["pattern"]): r for r in result.runs_table.iter_rows(named=True)}
    for spec in patterns:
        static = rows["ar_updn", spec]["static_contention"]
        assert static == pytest.approx(rows["updn", spec]["contention"])
        assert rows["ar_updn", spec]["contention"] == pytest.approx(
            rows["ecmp", spec]["contention"]
        )
        assert rows["updn", spec]["static_contention"] is None
    code, out, _ = run(
        capsys, "compare", "xgft:2;8,8;1,4", "--engine", "ar_updn,updn", "--pattern",
        "bit-reversal,shift", "--samples", "20",
    )  # fmt: skip
    assert code == 0
    assert "│ ar_updn         │         1.75 │     1 │" in out
    assert "│ ar_updn, static │            7 │     1 │" in out
    line = next(line for line in out.splitlines() if line.startswith("ar_updn: adaptive routes"))
    assert "lower under bit-reversal (1.75 instead of 7), the same under shift." in line
    assert line in result.page().answer or "ar_ftree, ar_updn" in result.page().answer
    assert "ar_updn: in NVIDIA's subnet manager: routing_engine ar_updn" in out
    assert f"ar_updn gets {engines['ar_updn']['ebb']:.1%}, with NVIDIA's subnet manager" in out


def test_hosts_that_forward_have_hot_links_too(capsys) -> None:
    _, out, _ = run(capsys, "compare", "bcube:n=4,k=1", "--samples", "2")
    assert "Its most contended link under all-to-all: " in out


def test_a_fabric_on_which_no_flow_arrives_is_compared_too(capsys) -> None:
    words = ("--random-cables", "3", "--samples", "2")
    status, out, _ = run(capsys, "compare", "ring:3", *words)
    assert status == 1
    assert "6 of 6 host pairs" in out


def test_one_switch_is_compared_although_no_cable_between_switches_has_a_load(capsys) -> None:
    status, out, err = run(capsys, "compare", "xgft:1;4;1", "--samples", "10")
    assert (status, err) == (0, "")
    # No load is no gain over an engine of OpenSM.
    assert "Recommended: OpenSM's own" in out
    assert "have the same figures" in out


def test_route_prints_the_verdict_and_the_refusals(capsys) -> None:
    status, out, _ = run(capsys, "route", "ring:6", "dmodk", "updn:roots=center")
    assert status == 0
    assert "dmodk does not fit" in out
    assert "updn on ring:6: valid" in out
    status, out, _ = run(capsys, "route", "ring:6")
    assert status == 1
    assert "minhop on ring:6: NOT VALID" in out
    assert "waits for" in out


@pytest.mark.parametrize(
    "words",
    [
        ("dmodk", "nue:lmc=0,passes=3"), ("dmodk,nue:lmc=0,passes=3",),
        ("dmodk", "--engine", "nue:lmc=0,passes=3"), ("--engines", "dmodk", "nue:lmc=0,passes=3"),
    ],
)  # fmt: skip
def test_route_takes_engines_as_other_commands_do(capsys, words: tuple[str, ...]) -> None:
    status, out, _ = run(capsys, "route", "ring:6", *words)
    assert status == 0
    assert "dmodk does not fit" in out
    assert "nue on ring:6: valid" in out


def test_info_describes(capsys) -> None:
    status, out, _ = run(capsys, "info", TREE)
    assert status == 0
    assert "PGFT(2; 4,4; 1,4; 1,1)" in out
    status, out, _ = run(capsys, "info", "kns:k=4,n=2")
    assert "at least" in out
    assert "at most" in out


def test_convert_round_trips(capsys, tmp_path: Path) -> None:
    path = tmp_path / "tree.ibnetdiscover"
    assert run(capsys, "convert", TREE, "-o", str(path))[0] == 0
    status, out, _ = run(capsys, "convert", str(path), "--to", "ibnetdiscover")
    assert status == 0
    assert out == path.read_text()
    status, out, _ = run(capsys, "convert", TREE, "--to", "slurm")
    assert status == 0
    assert "SwitchName=" in out


def test_cost_prints_a_plan_and_writes_the_cabling_list(capsys, tmp_path: Path) -> None:
    path = tmp_path / "cables.csv"
    status, out, _ = run(capsys, "cost", TREE, "--cables", str(path), "--rack-units", "48")
    assert status == 0
    assert "rack" in out
    assert len(path.read_text().splitlines()) == 1 + 32


def test_output_that_cannot_be_written_is_one_line(capfd, tmp_path: Path) -> None:
    (tmp_path / "folder.parquet").mkdir()
    words = ["compare", TREE, "--engine", "dmodk", "--samples", "2"]
    assert main([*words, "--table", str(tmp_path / "folder.parquet")]) == 2
    assert "folder.parquet: is a folder" in capfd.readouterr().err
    assert not list(tmp_path.glob(".*"))
    command = [Path(sys.executable).with_name("weft"), "convert", TREE]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "weft: error: cannot write the output: No space left on device"
    ]


def test_list_shows_everything(capsys) -> None:
    status, out, _ = run(capsys, "list")
    assert status == 0
    for word in ("dmodk", "kns", "tornado", "ibnetdiscover", "slurm", "multipath-ecmp"):
        assert word in out
    status, out, _ = run(capsys, "list", "engines")
    assert "tornado" not in out


@pytest.mark.sampled(120)
@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(
    ("kind", "entry"), [(kind, entry) for kind, registry in KINDS.items() for entry in registry]
)
def test_list_explains_an_entry_and_each_of_its_options(
    capsys, monkeypatch: pytest.MonkeyPatch, kind: str, entry: Entry, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    status, out, _ = run(capsys, "list", kind, entry.name)
    assert status == 0
    assert entry.summary[:40] in " ".join(out.split())  # it may be wrapped
    assert "`" not in out
    assert max(map(len, out.splitlines())) <= columns
    lines = out.splitlines()
    for option in entry.options:
        heads = [i for i, line in enumerate(lines) if re.match(rf"  (\S+, )*{option}\b", line)]
        # Names of several options with one meaning may be wrapped.
        below = (next(line for line in lines[i + 1 :] if line[2:3] == " ") for i in heads)
        assert any(line.startswith("      ") for line in below), option
    _, alone, _ = run(capsys, "list", entry.name)
    assert out in alone  # several entries may have this name, such as a reader and a writer


def test_list_shows_defaults_as_they_are_typed(capsys) -> None:
    for name, heads in (
        ("flowlet", ["gap=10us", "entries=4096"]),
        ("conga", ["gap=500us", "t_dre=16us", "ageing=10ms"]),
        ("natural-ring", ["sizes=8B,2MB"]),
        ("ring-allreduce", ["gradients=102228128B", "bucket=25MiB", "forward=0ns", "overlap=true"]),
        ("cartesian", ["sizes=4KiB,8KiB,", "shuffled=true", "dims=", "utilization=1"]),
        ("tit", ["flops_per_s=1e+09", "tags="]),
        ("kns-infiniband", ["ranks_per_node=1,8", "benchmarks=", "full=false", "out="]),
    ):
        _, out, _ = run(capsys, "list", name)
        options = out.partition("Options")[2]
        for head in heads:
            assert re.search(rf"^  (\S+, )*{re.escape(head)}", options, re.M), head
        assert not re.search(r"=\S*(None|True|False)", options)
    # The values shown are accepted as input and equal the defaults.
    for kind in ("patterns", "applications", "policies", "engines"):
        for entry in KINDS[kind]:
            typed = {
                name: text.partition("=")[2]
                for name, text in with_defaults(entry).items()
                if not text.endswith("=") and "=" in text
            }
            defaults = {name: entry.options[name].default for name in typed}
            assert KINDS[kind].bind(entry, typed) == defaults, entry.name


#: OpenSM's dump of a switch with one adapter.
SUBNET_LIST = """\
{ SW Ports:04 SystemGUID:0000000000000000 NodeGUID:0000000000200000 PortGUID:0000000000200000 \
VenID:000000 DevID:0000 Rev:00000000 {s} LID:0002 PN:01 } { CA Ports:01 \
SystemGUID:0000000000000000 NodeGUID:0000000000100000 PortGUID:0000000000100001 VenID:000000 \
DevID:0000 Rev:00000000 {h} LID:0001 PN:01 } PHY=4x LOG=ACT SPD=50
{ CA Ports:01 SystemGUID:0000000000000000 NodeGUID:0000000000100000 \
PortGUID:0000000000100001 VenID:000000 DevID:0000 Rev:00000000 {h} LID:0001 PN:01 } { SW \
Ports:04 SystemGUID:0000000000000000 NodeGUID:0000000000200000 PortGUID:0000000000200000 \
VenID:000000 DevID:0000 Rev:00000000 {s} LID:0002 PN:01 } PHY=4x LOG=ACT SPD=50
"""


def fed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make standard input yield a text."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_fabric_of_one_adapter_is_described(capsys, monkeypatch, tmp_path) -> None:
    (tmp_path / "opensm-subnet.lst").write_text(SUBNET_LIST)
    status, out, _ = run(capsys, "info", str(tmp_path / "opensm-subnet.lst"))
    assert status == 0
    assert "distance" not in out
    assert re.search(r"hosts +│ 1 ", out)
    assert re.search(r"rates +│ 1 × 4xHDR", out)
    fed(monkeypatch, SUBNET_LIST)
    assert run(capsys, "route", "-") == (
        0, "minhop on standard input: valid, no pair of hosts is connected, 1 lane\n", "",
    )  # fmt: skip


def test_standard_input_is_one_file_that_is_read(capsys, monkeypatch) -> None:
    trace = "RANKS 4\nbarrier\n"
    fed(monkeypatch, trace)
    status, out, _ = run(capsys, "trace", "check", "-")
    assert status == 0
    assert re.search(r"messages +8", out)
    fed(monkeypatch, trace)
    status, out, _ = run(capsys, "simulate", TREE, "--workload", "-", "--level", "flow")
    assert status == 0
    assert re.search(r"│ +4 │ +4 │ .* │ +8 │", out)
    for words, says in (
        (["info", "-", "--names", "-"], "standard input: can be read only once"),
        (["info", "-"], "standard input: is not in a format"),
        (["trace", "check", "-"], "standard input:2: "),
        (["convert", TREE, "-o", "-"], "--output -: standard input cannot be written"),
        (["trace", "format", "-i", "-"], "standard input: cannot be written; expected a file"),
    ):
        wrong = "RANKS 4\n  Barrierr\n" if says.endswith("2: ") else "RANKS 4\n  barrier\n"
        fed(monkeypatch, SUBNET_LIST if "--names" in words else wrong)
        status, out, err = run(capsys, *words)
        assert (status, out) == (2, "")
        assert says in err
    monkeypatch.setattr("sys.stdin", None)
    assert run(capsys, "info", "-") == (2, "", "weft: error: standard input: is closed\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["compare", "xgft:2;4"], "needs"),
        (["compare", "nowhere.txt"], "neither a file nor a topology"),
        (["compare", TREE, "--engines", "minhopp"], "did you mean 'minhop'"),
        (["compare", TREE, "--engine", "minhop:lmc=9"], "lmc must be 0 to 7"),
        (["compare", TREE, "--patterns", "shift:by=2"], "no option 'by'"),
        (["compare", TREE, "--samples", "0"], "samples must be at least 1"),
        (["compare", TREE, "--samples", "many"], "samples"),
        (["compare", TREE, "--table", "x.xls"], "ends in .csv or .parquet"),
        (["compare", TREE, "--report", "no/such/folder/x.html"], "does not exist"),
        (["compare", TREE, "--report", "."], "is a folder"),
        (["compare", TREE, "--random-cables", "1", "--fault-seed", "-1"], "seed"),
        (["info", TREE, "--slow-cable", "s1-0[5]"], "expected node[port]=RATE"),
        (["info", TREE, "--slow-cable", "s1-0[5]=5xHDR"], "unknown rate"),
        (["info", TREE, "--fail-switch", "h1"], "h1 (node 9) is not a switch"),
        (["convert", TREE, "--to", "graphviz:host=false"], "did you mean 'hosts'"),
        (["compare", TREE, "--fail-cable", "nobody[1]"], "no node 'nobody'"),
        (
            ["compare", TREE, "--random-cables", "1", "--fault-seed", "-1"],
            "--fault-seed: '-1' does not",
        ),
        (["compare", TREE, "--engine", "dmodk", "--samples", "1" + "0" * 14], "of memory, and"),
        (["compare", TREE, "--random-cables", "999"], "cannot remove 999"),
        (["compare", "xgft:1;1;1"], "two or more"),
        (["compare"], "fabric"),
        (["route", TREE, "updn:roots=h0"], "not a switch"),
        (["convert", TREE, "--to", "pdf"], "unknown"),
        (["convert", TREE, "-o", "no/such/x.dot"], "x.dot"),
        (["cost", TREE, "--rack-units", "0"], "--rack-units: '0' does not fit"),
        (["cost", TREE, "--prices", "none.toml"], "none.toml"),
        (["paper", "multipath-ecmp", "--seeds", "none"], "seeds"),
        (["paper", "multipath-ecmp", "--sedes", "3"], "did you mean '--seeds'"),
        (["paper", "qsnett"], "unknown paper"),
        (["list", "things"], "unknown name 'things'"),
        (["list", "engines", "updm"], "did you mean 'updn'"),
        (["list", "enginse", "updn"], "did you mean 'engines'"),
        (["weave"], "weave"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, words: list[str], says: str) -> None:
    status, _, err = run(capsys, *words)
    assert status == 2
    assert err.startswith("weft: error: ")
    assert len(err.strip().splitlines()) == 1, err
    assert says.lower() in err.lower()
