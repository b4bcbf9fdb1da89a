"""Sweeps in OpenSM's log, with lines written by OpenSM 3.3.23."""

from __future__ import annotations

import itertools

from weft.routing.opensm.osm_log import complaints, is_log, last_error, last_sweep, sweeps, version


def lines(*entries: str) -> str:
    """Return log lines; each argument is a level and a text."""
    return "".join(
        f"Nov 21 11:30:29 703331 [601A3740] 0x{level} -> {text}\n"
        for level, text in (line.split(" ", 1) for line in entries)
    )


CONFIGURED = "02 osm_ucast_mgr_process: {} tables configured on all switches"
START = lines("43 OpenSM 3.3.23", "80 Entering MASTER state")
GOOD = lines(CONFIGURED.format("dor"), "02 SUBNET UP")
NO_ROOTS = lines(
    "02 updn_lid_matrices: disabling UPDN algorithm, no root nodes were found",
    "01 ucast_mgr_route: updn: cannot build lid matrices",
    CONFIGURED.format("minhop"),
    "02 SUBNET UP",
)
NO_FILE = lines(
    "81 do_ucast_file_load: ERR 6302: Can't open ucast dump file 'x': No such file or directory",
    "01 ucast_mgr_route: file: cannot build fwd tables",
    CONFIGURED.format("minhop"),
)
UNKNOWN = lines(
    "01 setup_routing_engine: cannot find or setup routing engine 'bogus'",
    "01 setup_routing_engines: Failed to setup routing engine 'bogus'",
)


def test_a_successful_sweep() -> None:
    (sweep,) = sweeps(START + GOOD)
    assert (sweep.engine, sweep.up, sweep.failed, sweep.errors) == ("dor", True, (), ())
    assert not sweep.failed
    assert version(START + GOOD) == "3.3.23"
    assert is_log(START)
    assert not is_log('Switch 3 "a"\n')


def test_the_reason_why_an_engine_gave_up_is_read() -> None:
    (sweep,) = sweeps(START + NO_ROOTS)
    assert sweep.engine == "minhop"
    assert sweep.failed
    assert sweep.failed == (("updn", "disabling UPDN algorithm, no root nodes were found"),)


def test_each_sweep_is_judged_by_its_own_lines() -> None:
    all_sweeps = sweeps(START + NO_ROOTS + GOOD + NO_FILE)
    assert [sweep.engine for sweep in all_sweeps] == ["minhop", "dor", "minhop"]
    assert [sweep.up for sweep in all_sweeps] == [True, True, False]  # the last one has not ended
    assert [sweep.failed != () for sweep in all_sweeps] == [True, False, True]
    reason = "Can't open ucast dump file 'x': No such file or directory"
    assert all_sweeps[2].failed == (("file", reason),)
    assert last_error(NO_FILE).startswith("ucast_mgr_route: file")


def test_an_engine_that_opensm_does_not_have() -> None:
    (sweep,) = sweeps(START + UNKNOWN + GOOD)
    assert sweep.failed == (("bogus", "OpenSM has no engine of that name"),)


def test_a_sweep_cut_short_by_the_next_is_not_up() -> None:
    line = GOOD.splitlines()[0] + "\n"
    assert [sweep.up for sweep in sweeps(line + GOOD)] == [False, True]


def test_the_last_sweep_is_found_from_the_end() -> None:
    parts = (START, GOOD, NO_ROOTS, NO_FILE, UNKNOWN, lines("02 SUBNET UP"))
    for chosen in itertools.product(parts, repeat=4):
        text = "".join(chosen)
        assert last_sweep(text) == (sweeps(text) or [None])[-1], text


def test_errors_that_leave_ports_without_lids_are_grave() -> None:
    out = "lid_mgr_find_free_lid_range: ERR 0307: OPENSM RAN OUT OF LIDS!!!"
    policy = "osm_qos_parse_policy_file: ERR AC01: Failed opening QoS policy file x"
    (sweep,) = sweeps(START + lines(f"01 {policy}", *[f"01 {out}"] * 3) + GOOD)
    assert sweep.up
    assert sweep.grave == (out,) * 3
    assert complaints(sweep.errors) == (
        "; OpenSM logged: OPENSM RAN OUT OF LIDS!!! (3 times) / Failed opening QoS policy file x"
    )
    assert complaints([f"f: ERR 0001: {n}" for n in range(5)]).endswith(" / 2 and 2 other errors")
    assert complaints([]) == ""


def test_an_empty_log() -> None:
    assert sweeps("") == []
    assert version("") == ""
    assert last_error("") == ""
