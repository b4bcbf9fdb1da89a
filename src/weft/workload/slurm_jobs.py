"""Running jobs of Slurm: what ``squeue`` and ``scontrol show job`` print, as text or as JSON.

The formats are those of Slurm's manual pages. JSON of Slurm before 23.11 has plain values where
later versions have lists of states and records of numbers (``{"set": true, "number": 1}``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.counts import counted
from weft.core.errors import InputError, in_file
from weft.core.files import read_text
from weft.fabrics import Fabric
from weft.fabrics.formats.format_registry import FormatWarning
from weft.fabrics.formats.hostlist import expand

#: States in which processes of a job run, as squeue's columns ``ST`` and ``STATE`` have them.
_RUNNING = ("R", "RUNNING")
#: Names of the same column in squeue's two forms of formats.
_COLUMNS = {
    "JOBID": "id", "NAME": "name", "ST": "state", "STATE": "state", "NODES": "count",
    "NODELIST": "nodes", "NODELIST(REASON)": "nodes", "START_TIME": "start", "TIME": "elapsed",
}  # fmt: skip
#: Fields of scontrol's records.
_FIELDS = {
    "JobId": "id", "JobName": "name", "JobState": "state", "NodeList": "nodes",
    "NumNodes": "count", "StartTime": "start", "RunTime": "elapsed",
}  # fmt: skip
_FIELD = re.compile(rf"(?<!\S)({'|'.join(_FIELDS)})=(.*?)(?=\s+[A-Z][\w/:&]*=|\s*$)", re.ASCII)
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,4}):)?(\d{1,3}):(\d\d)", re.ASCII)
_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S"
_ADVICE = "expected the output of squeue or scontrol show job, as text with its header or as JSON"


@dataclass(frozen=True)
class RunningJob:
    """A job that runs on machines of a fabric."""

    #: Number of the job, with that of the task in an array (``1207_3``), and its name.
    id: str
    name: str
    #: Names of its nodes, in the order of the list.
    nodes: tuple[str, ...]
    #: Start, and time for which it had run when it was listed, in s; None if not listed.
    start: datetime | None = None
    elapsed_s: float | None = None

    @property
    def title(self) -> str:
        """Number and name: ``1207 (lammps)``."""
        return f"{self.id} ({self.name})" if self.name else self.id

    def began_after(self, begin: datetime, end: datetime) -> bool:
        """Return whether it may have begun after `begin`, if it was listed at `end`."""
        if self.start is not None:
            return self.start > begin
        return self.elapsed_s is not None and self.elapsed_s < (end - begin).total_seconds()


def read_jobs(path: str | Path) -> list[RunningJob]:
    """Return the running jobs that a file lists; jobs in other states are left out.

    Parameters
    ----------
    path
        Output of ``squeue`` (any format with a header that has JOBID and NODELIST, separated by
        spaces or ``|``), ``squeue --json``, ``scontrol show job`` (also with ``-o``), or
        ``scontrol show job --json``. Times without a zone are those of the local zone.

    Raises
    ------
    InputError
        If the file is none of these, ends early, or its lists of nodes are cut off.
    """
    text = read_text(path)
    start = text.lstrip()[:1]
    if start == "{":
        records = _json(text, path)
    elif re.search(r"(?m)^\s*JobId=", text, re.ASCII):
        records = _scontrol(text, path)
    elif text.strip() == "No jobs in the system":
        records = iter(())
    else:
        records = _squeue(text, path)
    jobs: dict[str, RunningJob] = {}
    for line, record in records:
        with in_file(path, line):
            job = _job(record)
            if job is not None and jobs.setdefault(job.id, job) != job:
                raise InputError(f"job {job.id} is listed a second time, on other nodes")
    return list(jobs.values())


def job_hosts(
    fabric: Fabric, jobs: Sequence[RunningJob]
) -> tuple[dict[str, NDArray[np.int64]], list[FormatWarning]]:
    """Return the adapters of the machines of each job, by its title, and what was left out.

    Nodes that the fabric lacks are left out, and jobs of which no node is left.
    """
    placed: dict[str, NDArray[np.int64]] = {}
    unknown: dict[str, list[str]] = {}
    for job in jobs:
        hosts: list[int] = []
        for name in job.nodes:
            if name in fabric.machines:
                hosts += fabric.machines[name]
            else:
                unknown.setdefault(job.title, []).append(name)
        if hosts:
            placed[job.title] = np.unique(np.array(hosts, dtype=np.int64))
    said = []
    if unknown:
        items = [f"{name} of job {job}" for job, names in unknown.items() for name in names]
        text = counted(items, "node", f"of running jobs not in {fabric.name}, left out")
        lost = [job for job in unknown if job not in placed]
        if lost:
            text += "; " + counted(lost, "job", "left out as a whole")
        said.append(FormatWarning(text, "unknown nodes", tuple(items), "warning"))
    return placed, said


def _job(record: Mapping[str, str]) -> RunningJob | None:
    """Return the job of a record; None if it does not run."""
    nodes = record.get("nodes", "").strip()
    state = record.get("state")
    # squeue writes the reason why a job waits in place of its nodes.
    if state not in _RUNNING if state is not None else nodes.startswith("(") or not nodes:
        return None
    if "nodes" not in record:
        raise InputError(f"job {record['id']} runs, but its nodes are not listed; {_ADVICE}")
    try:
        names = tuple(dict.fromkeys(expand(nodes)))
    except InputError as error:
        raise InputError(f"nodes of job {record['id']}: {error.message}{_cut(record)}") from None
    count = record.get("count", "")
    if count.isdecimal() and int(count) != len(names):
        raise InputError(
            f"job {record['id']} runs on {count} nodes, but {len(names)} are listed{_cut(record)}"
        )
    start, elapsed = record.get("start", ""), _ELAPSED.fullmatch(record.get("elapsed", ""))
    seconds = None
    if elapsed:
        days, hours, minutes, rest = (int(part or 0) for part in elapsed.groups())
        seconds = ((days * 24.0 + hours) * 60 + minutes) * 60 + rest
    return RunningJob(record["id"], record.get("name", ""), names, _time(start), seconds)


def _cut(record: Mapping[str, str]) -> str:
    wide = "; if squeue cut the column off, use squeue -o '%i|%j|%T|%S|%D|%N' or squeue --json"
    return "" if "json" in record else wide


def _time(text: str) -> datetime | None:
    if text.isdecimal():
        return datetime.fromtimestamp(int(text), UTC) if 0 < int(text) < 2**33 else None
    try:
        return datetime.strptime(text, _TIME_FORMAT).astimezone(UTC)
    except (ValueError, OverflowError):
        return None  # Unknown, N/A


def _json(text: str, path: str | Path) -> Iterator[tuple[int | None, dict[str, str]]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        why = getattr(error, "msg", "a number or the nesting is too large")
        raise InputError(f"is no valid JSON: {why}; {_ADVICE}", file=path, line=line) from None
    jobs = found.get("jobs")
    if not isinstance(jobs, list):
        raise InputError(f"has no list of jobs; {_ADVICE}", file=path)
    for number, job in enumerate(jobs, 1):
        if not isinstance(job, dict) or _plain(job.get("job_id")) is None:
            raise InputError(f"entry {number} of jobs has no job_id; {_ADVICE}", file=path)
        states = job.get("job_state", "")
        states = states if isinstance(states, list) else [states]
        record = {
            "id": _plain(job["job_id"]), "name": _plain(job.get("name")), "json": "",
            # Further states are flags: a job that is RUNNING and COMPLETING ends.
            "state": str(states[0]) if len(states) == 1 else "",
            "nodes": _plain(job.get("nodes")), "start": _plain(job.get("start_time")),
        }  # fmt: skip
        yield None, {key: value for key, value in record.items() if value is not None}


def _plain(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    return None if value is None else str(value)


def _scontrol(text: str, path: str | Path) -> Iterator[tuple[int, dict[str, str]]]:
    record: dict[str, str] = {}
    first = 1
    for number, line in enumerate(text.splitlines(), 1):
        fields = [(_FIELDS[key], value.strip()) for key, value in _FIELD.findall(line)]
        if fields and fields[0][0] == "id":
            if record:
                yield first, record
            record, first = {}, number
        for key, value in fields:
            record.setdefault(key, value)
        # All of scontrol's records have a state; the others are a rest of the file.
        if fields and "id" not in record:
            raise InputError(f"belongs to no job; {_ADVICE}", file=path, line=number)
    # The number of nodes follows their list.
    if record and not {"state", "nodes", "count"} <= record.keys():
        raise InputError(
            f"the record of job {record['id']} ends before its nodes and their number", file=path,
            line=first,
        )  # fmt: skip
    yield first, record


def _squeue(text: str, path: str | Path) -> Iterator[tuple[int, dict[str, str]]]:
    names: list[str | None] = []
    bar = False
    found: list[tuple[int, dict[str, str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if "JOBID" in re.split(r"[\s|]+", line.strip()):
            bar = "|" in line
            words = [word.strip() for word in (line.split("|") if bar else line.split())]
            names, found = [_COLUMNS.get(word) for word in words], []  # squeue -i: the last list
            if "nodes" not in names:
                raise InputError(f"has no column NODELIST; {_ADVICE}", file=path, line=number)
        elif names:
            found.append((number, _row(line, names, bar, path, number)))
        elif number > 3:  # before the header: the date, the cluster
            break
    if not names:
        raise InputError(f"has no header with JOBID; {_ADVICE}", file=path, line=1)
    yield from found


def _row(
    line: str, names: Sequence[str | None], bar: bool, path: str | Path, number: int
) -> dict[str, str]:
    words = [word.strip() for word in line.split("|")] if bar else line.split()
    more = len(words) - len(names)
    # Names of jobs, and the reasons of jobs that wait, may have spaces or bars.
    at = names.index("name") if "name" in names else len(names) - 1
    if more > 0 and not bar and words[len(names) - 1].startswith("("):
        at = len(names) - 1
    if more > 0:
        words[at : at + more + 1] = [(" |"[bar]).join(words[at : at + more + 1])]
    if more < 0:
        raise InputError(
            f"has {len(words)} of {len(names)} columns; the file ends early, or a value is empty "
            "(separate columns by |)", file=path, line=number,
        )  # fmt: skip
    return {name: word for name, word in zip(names, words, strict=True) if name}
