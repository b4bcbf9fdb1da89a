"""Running jobs of Slurm from the forms in which its programs print them."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import examples

from weft.core.errors import InputError
from weft.fabrics.load import fabric as load_fabric
from weft.workload.slurm_jobs import RunningJob, job_hosts, read_jobs

DEFAULT = """\
             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
          1207_[4]       all   sweeps     lena PD       0:00      1 (Nodes are DOWN)
            1207_3       all   sweeps     lena  R       4:05      2 node[003-004]
              1301       all big run     omar  R 2-03:04:05      3 node[007-008],login1
              1302       all     over     omar CG      10:00      1 node009
"""
SCONTROL = """\
JobId=1301 JobName=big run
   UserId=omar(1001) GroupId=users(100) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   RunTime=00:00:07 TimeLimit=01:00:00 TimeMin=N/A
   StartTime=2026-03-04T12:05:52 EndTime=2026-03-04T13:05:52 Deadline=N/A
   Partition=all AllocNode:Sid=login1:7040
   ReqNodeList=(null) ExcNodeList=node001
   NodeList=node[007-008]
   BatchHost=node007
   NumNodes=2 NumCPUs=2 NumTasks=2 CPUs/Task=1
   Command=/bin/true NodeList

JobId=1400 JobName=next
   JobState=PENDING Reason=Resources Dependency=(null)
   NodeList=
   NumNodes=4-4 NumCPUs=4
"""
JOBS = [
    RunningJob("1207_3", "sweeps", ("node003", "node004"), None, 245.0),
    RunningJob("1301", "big run", ("node007", "node008", "login1"), None, 183845.0),
]


def _read(tmp_path, text):
    file = tmp_path / "jobs"
    file.write_text(text)
    return read_jobs(file)


def test_default_table_of_squeue(tmp_path):
    assert _read(tmp_path, DEFAULT) == JOBS
    twice = "Wed Mar 04 12:00:00 2026\n" + DEFAULT + "\n" + DEFAULT.replace("1301", "1999")
    assert [job.id for job in _read(tmp_path, twice)] == ["1207_3", "1999"]


def test_chosen_columns_of_squeue_with_bars_and_without_a_state(tmp_path):
    text = "JOBID|NAME|START_TIME|NODELIST\n7|a|b|N/A|\n8|c|2026-03-04T12:05:52|node[1,3]\n"
    (job,) = _read(tmp_path, text)
    local = datetime(2026, 3, 4, 12, 5, 52).astimezone()
    assert job == RunningJob("8", "c", ("node1", "node3"), local.astimezone(UTC), None)


@pytest.mark.parametrize("one_line", [False, True])
def test_records_of_scontrol(tmp_path, one_line):
    text = SCONTROL
    if one_line:
        text = "\n".join(" ".join(each.split("\n")) for each in text.split("\n\n"))
    (job,) = _read(tmp_path, text)
    assert (job.id, job.name, job.nodes) == ("1301", "big run", ("node007", "node008"))
    assert job.elapsed_s == 7.0


@pytest.mark.parametrize(
    ("state", "start"),
    [
        ("RUNNING", 1772625952),
        (["RUNNING"], {"set": True, "infinite": False, "number": 1772625952}),
    ],
)
def test_json_of_old_and_new_versions(tmp_path, state, start):
    one = {"job_id": 5, "name": "md", "job_state": state, "nodes": "n[1-2]", "start_time": start}
    ends = one | {"job_id": 6, "job_state": ["RUNNING", "COMPLETING"]}
    waits = {"job_id": 7, "job_state": "PENDING", "nodes": ""}
    (job,) = _read(tmp_path, json.dumps({"jobs": [one, ends, waits]}, indent=1))
    assert job == RunningJob("5", "md", ("n1", "n2"), datetime.fromtimestamp(1772625952, UTC))


def test_no_jobs(tmp_path):
    for text in ("No jobs in the system\n", DEFAULT.splitlines()[0] + "\n", '{"jobs": []}'):
        assert _read(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (DEFAULT.replace("node[003-004]", "node[003-"), "jobs:3: nodes of job 1207_3"),
        (
            DEFAULT.replace("      2 node", "      4 node"),
            "jobs:3: job 1207_3 runs on 4 nodes, but 2",
        ),
        (DEFAULT[: DEFAULT.index("      3 node")], "jobs:4: has 7 of 8 columns"),
        (DEFAULT.replace("NODELIST(REASON)", "REASON"), "jobs:1: has no column NODELIST"),
        ("hello\n", "jobs:1: has no header with JOBID"),
        (SCONTROL[: SCONTROL.index("   NumNodes=2")], "jobs:1: the record of job 1301 ends before"),
        ("   NodeList=n1\n" + SCONTROL, "jobs:1: belongs to no job"),
        (SCONTROL + SCONTROL.replace("node[007-008]", "node[001-002]"), "listed a second time"),
        ('{"jobs": [\n{"job_id": 5', "jobs:2: is no valid JSON"),
        ('{"jobs": [{"job_id": ' + "1" * 5000 + "}]}", "is no valid JSON: a number"),
        ('{"nodes": []}', "has no list of jobs"),
        ('{"jobs": [{"name": "x"}]}', "entry 1 of jobs has no job_id"),
    ],
)
def test_one_clear_error(tmp_path, text, said):
    with pytest.raises(InputError) as caught:
        _read(tmp_path, text)
    assert said in str(caught.value)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_text_that_is_cut_off_gives_jobs_that_were_listed_or_an_error(tmp_path, data):
    text = data.draw(st.sampled_from((DEFAULT, SCONTROL)))
    cut = text[: data.draw(st.integers(0, len(text)))]
    listed = {job.id for job in _read(tmp_path, text)}
    try:
        found = _read(tmp_path, cut)
    except InputError:
        return
    assert {job.id for job in found} <= listed


def test_hosts_of_jobs_are_all_adapters_of_their_machines():
    fabric = load_fabric("xgft:2;4,4;1,2")
    jobs = [
        RunningJob("1", "a", ("h1", "h0", "gone")),
        RunningJob("2", "b", ("lost",)),
    ]
    hosts, said = job_hosts(fabric, jobs)
    assert {name: each.tolist() for name, each in hosts.items()} == {"1 (a)": [0, 1]}
    assert said[0].items == ("gone of job 1 (a)", "lost of job 2 (b)")
    assert "2 nodes of running jobs not in" in str(said[0])
    assert "1 job left out as a whole: 2 (b)" in str(said[0])


def test_a_job_may_have_begun_within_the_interval():
    begin = datetime(2026, 3, 4, tzinfo=UTC)
    end = begin + timedelta(seconds=30)
    late = RunningJob("1", "a", ("n1",), begin + timedelta(seconds=1))
    assert late.began_after(begin, end)
    assert not RunningJob("1", "a", ("n1",), begin).began_after(begin, end)
    assert RunningJob("1", "a", ("n1",), None, 29.0).began_after(begin, end)
    assert not RunningJob("1", "a", ("n1",), None, 31.0).began_after(begin, end)
