"""Audits without OpenSM: rotated logs, severities, and alternatives by the figures of `compare`."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

from weft.advice.compare import compare
from weft.cli import main
from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.fabrics.formats import write_fabric
from weft.fabrics.judged import Judged
from weft.fabrics.topology import build
from weft.routing import route
from weft.routing.opensm import log_files
from weft.routing.opensm.lfts import lft_dump
from weft.routing.opensm.log_files import logs_of, read_log
from weft.subnet.audit import Audit, audit

_AT = "Jun 18 04:37:25 404440 [49C006C0]"
FALLBACK = f"""{_AT} 0x02 -> updn_lid_matrices: disabling UPDN algorithm, no root nodes were found
{_AT} 0x01 -> ucast_mgr_route: updn: cannot build lid matrices.
{_AT} 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches
{_AT} 0x02 -> SUBNET UP
"""
GOOD = f"""{_AT} 0x80 -> OpenSM 3.3.23
{_AT} 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches
{_AT} 0x02 -> SUBNET UP
"""
IDLE = f"{_AT} 0x02 -> a light sweep\n"


def folder(path: Path, fabric: Fabric, engine: str, **files: bytes) -> Path:
    """Write the tables of an engine and further files as dumps, and return the folder."""
    path.mkdir()
    (path / "opensm-lfts.dump").write_text(lft_dump(fabric, route(fabric, engine)))
    write_fabric(fabric, path / "fabric.ibnetdiscover", "ibnetdiscover")
    for name, data in files.items():
        (path / name).write_bytes(data)
    return path


def audited(path: Path) -> Audit:
    from weft.fabrics.load import fabric as load

    return audit([path], load(path / "fabric.ibnetdiscover"))


TREE = build("leaf-spine:leaves=4,spines=2,hosts=2")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("opensm.log", bytes), ("opensm.log.gz", gzip.compress), ("opensm.log.1", bytes),
        ("opensm.log.2.gz", gzip.compress), ("opensm.log-20260618", bytes),
        ("opensm.log-20260618.xz", lzma.compress), ("opensm.log.1.bz2", bz2.compress),
        ("opensm.log.old", bytes),
    ],
)  # fmt: skip
def test_a_fallback_in_a_rotated_log_is_an_error(name, pack, tmp_path, capsys) -> None:
    dumps = folder(tmp_path / "a", TREE, "minhop", **{name: pack(FALLBACK.encode())})
    actual = audited(dumps)
    assert [f.kind for f in actual.findings if f.severity == "error"] == ["fallback"]
    assert "OpenSM routes with minhop (updn: disabling" in actual.text()
    fabric = str(dumps / "fabric.ibnetdiscover")
    assert main(["audit", str(dumps), "--fabric", fabric]) == 1
    assert "1 error" in capsys.readouterr().out
    assert main(["audit", str(dumps), "--fabric", fabric, "--fail-on", "never"]) == 0
    # The same file, by its contents under any name.
    (dumps / name).rename(dumps / "saved")
    with_file = audit([dumps, dumps / "saved"], TREE)
    assert with_file.engine == "minhop"


def test_the_newest_sweep_counts_and_older_logs_are_read_only_if_needed(tmp_path) -> None:
    bad, good = FALLBACK.encode(), GOOD.encode()
    names = {"opensm.log": good + good, "opensm.log.1": bad, "opensm.log.2": b"\0 no text"}
    assert audited(folder(tmp_path / "a", TREE, "minhop", **names)).ok
    names = {"opensm.log": IDLE.encode(), "opensm.log.1": bad, "opensm.log.2": good}
    assert not audited(folder(tmp_path / "b", TREE, "minhop", **names)).ok
    # A sweep that began before the log was rotated.
    head, _, tail = bad.partition(b"\n" + _AT.encode() + b" 0x02 -> osm")
    names = {"opensm.log": _AT.encode() + b" 0x02 -> osm" + tail, "opensm.log.1": head + b"\n"}
    assert not audited(folder(tmp_path / "c", TREE, "minhop", **names)).ok


def test_logs_are_ordered_by_their_names(tmp_path) -> None:
    ordered = [
        "opensm.log-20260101.gz", "opensm.log-20260102", "opensm.log.10", "opensm.log.2.gz",
        "opensm.log.1", "opensm.log",
    ]  # fmt: skip
    for name in [*ordered, "opensm.log.1.gz", "opensm.logs", "notes"]:
        (tmp_path / name).write_text("x")
    (tmp_path / "opensm.log.3").write_text("")
    assert [path.name for path in logs_of(tmp_path.iterdir())] == ordered


def test_a_log_that_must_be_decompressed_is_named(tmp_path) -> None:
    zstd = b"\x28\xb5\x2f\xfd" + bytes(20)
    names = {"opensm.log": IDLE.encode(), "opensm.log.1.zst": zstd}
    actual = audited(folder(tmp_path / "a", TREE, "minhop", **names))
    assert actual.unknown[0].startswith("opensm.log.1.zst is compressed with zstd: decompress it")
    with pytest.raises(InputError, match=r"log\.zst: is compressed with zstd"):
        audited(folder(tmp_path / "b", TREE, "minhop", **{"opensm.log.zst": zstd}))


def test_an_audit_without_a_log_says_so(tmp_path) -> None:
    actual = audited(folder(tmp_path / "a", TREE, "minhop"))
    assert actual.ok
    assert actual.findings == ()
    assert "nothing found; 4 points could not be judged" in actual.text()
    assert "not judged: engine, fallbacks and errors of the SM: no log" in actual.text()


def test_a_log_without_a_sweep_is_not_taken_for_a_good_one(tmp_path) -> None:
    actual = audited(folder(tmp_path / "a", TREE, "minhop", **{"opensm.log": bytes(range(256))}))
    assert actual.ok
    assert "not judged: the engine of the SM: the log has no heavy sweep" in actual.text()


def test_only_a_damaged_newest_log_ends_the_audit(tmp_path) -> None:
    cut = gzip.compress(FALLBACK.encode())[:-9]
    names = {"opensm.log": GOOD.encode(), "opensm.log.1": IDLE.encode(), "opensm.log.2.gz": cut}
    actual = audited(folder(tmp_path / "a", TREE, "minhop", **names))
    assert (actual.ok, actual.engine) == (True, "minhop")
    assert actual.unknown[0] == (
        "opensm.log.2.gz cannot be read: its end is missing or it is damaged; it and older logs "
        "were not read"
    )
    with pytest.raises(InputError, match=r"opensm\.log\.gz: cannot be read"):
        audited(folder(tmp_path / "b", TREE, "minhop", **{"opensm.log.gz": cut}))


def test_long_logs_without_a_sweep_end_the_search(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log_files, "TAIL_BYTES", 2**20)
    long = b"x" * (2**20 - 1) + b"\n"
    names = {"opensm.log": long, "opensm.log.1": long, "opensm.log.2": FALLBACK.encode()}
    actual = audited(folder(tmp_path / "a", TREE, "minhop", **names))
    assert actual.unknown[0] == (
        "opensm.log.2: newer logs have more than 1 MiB already; it and older logs were not read"
    )
    assert not [finding for finding in actual.findings if finding.kind == "fallback"]


def test_long_and_damaged_logs_take_bounded_memory(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(log_files, "TAIL_BYTES", 2**20)
    monkeypatch.setattr(log_files, "MOST_BYTES", 2**24)
    path = tmp_path / "opensm.log.gz"
    path.write_bytes(gzip.compress(GOOD.encode() + b"x\n" * 2**22 + FALLBACK.encode()))
    text = read_log(path)
    assert text.startswith(GOOD)
    assert text.endswith(FALLBACK)
    assert len(text) < 2**22
    path.write_bytes(gzip.compress(bytes(2**24 + 1)))
    with pytest.raises(InputError, match="after decompression"):
        read_log(path)
    for data in (gzip.compress(FALLBACK.encode())[:-9], b"\x1f\x8b\x08 no", b"\xfd7zXZ\0 no"):
        path.write_bytes(data)
        with pytest.raises(InputError, match="cannot be read"):
            read_log(path)


def test_alternatives_have_the_figures_of_compare_and_the_smallest_change_is_first(
    tmp_path,
) -> None:
    """Minhop can deadlock on a torus with a chord; weft's updn is free of it, but much worse."""
    fabric = build("torus:6x6")
    actual = audited(folder(tmp_path / "a", fabric, "minhop", **{"opensm.log": GOOD.encode()}))
    assert [f.kind for f in actual.findings if f.severity == "error"] == ["deadlock"]
    first = actual.alternatives[0]
    assert first.cures
    assert not first.worse
    assert first.change.startswith("OpenSM's own ")
    assert first.worst <= actual.worst * 4 / 3
    engines = [each.engine for each in actual.alternatives]
    rows = compare(fabric, engines, []).table.rows_by_key("engine", named=True, unique=True)
    for each in actual.alternatives:
        row = rows[each.engine]
        assert (each.lanes, each.worst, each.bandwidth) == (
            row["lanes"], row["max_load"], row["ebb"],
        )  # fmt: skip
    assert "updn" not in engines
    assert f"cure: {first.change}" in actual.text()


def test_good_tables_have_no_alternatives(tmp_path) -> None:
    dumps = folder(tmp_path / "a", TREE, "minhop", **{"opensm.log": GOOD.encode()})
    actual = audited(dumps)
    assert actual.alternatives == ()
    assert actual.better == ""
    assert actual.findings == ()


def test_only_the_traffic_of_judged_hosts_counts(tmp_path, capsys) -> None:
    dumps = folder(tmp_path / "a", TREE, "minhop", **{"opensm.log": GOOD.encode()})
    whole, part = (
        audit([dumps], TREE, judged=judged) for judged in (Judged(), Judged(without="h3.[0-1]"))
    )
    assert part.fabric.num_hosts == 6
    assert part.worst < whole.worst
    fabric = str(dumps / "fabric.ibnetdiscover")
    words = ["audit", str(dumps), "--fabric", fabric, "--json"]
    for option in (["--without", "h3.[0-1]"], ["--hosts", "h[0-2].[0-1]"]):
        assert main([*words, *option]) == 0
        actual = json.loads(capsys.readouterr().out)
        assert (actual["hosts"], actual["worst_load"]) == (6, part.worst)
    assert main([*words, "--without", "h9"]) == 2
    assert "no host 'h9'" in capsys.readouterr().err
