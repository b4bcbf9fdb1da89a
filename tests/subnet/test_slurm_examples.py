"""The Slurm examples, run as Slurm runs them, with a stand-in for scontrol and a real service."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.oracle.tools import require_tools
from tests.processes import PATIENCE_S, not_here
from tests.serve_runs import Served, free_port

from weft.client import Client, ServiceError

SCRIPTS = Path(__file__).parents[2] / "examples" / "slurm"
#: Prints the hosts of HOSTS; Slurm's program expands the host list itself.
SCONTROL = """#!/bin/sh
[ "$1 $2 $#" = "show hostnames 3" ] && [ "$3" = "$EXPECTED_LIST" ] || exit 1
printf '%s\\n' "$HOSTS"
"""
LIST = "h[0-7]"
COMMENT = "paid by grant 7 weft:cartesian:keys=true"


@dataclass
class Cluster:
    """A controller: its folder, settings and service."""

    folder: Path
    served: Served

    def run(
        self, script: str, *arguments: str, hosts: str = "h0 h1 h2 h3 h4 h5 h6 h7", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with nothing in its environment but what Slurm sets."""
        environment = {
            "WEFT_SLURM_CONF": str(self.folder / "slurm.env"), "EXPECTED_LIST": LIST,
            "HOSTS": hosts.replace(" ", "\n"), "TMPDIR": str(self.folder / "tmp"),
        }  # fmt: skip
        return subprocess.run(
            ["/bin/sh", str(SCRIPTS / script), *arguments],
            env=environment | variables, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip

    def prolog(self, **variables: str) -> subprocess.CompletedProcess[str]:
        job = {"ID": "4711", "NODELIST": LIST, "COMMENT": COMMENT, "UID": str(os.geteuid())}
        given = {f"SLURM_JOB_{name}": value for name, value in (job | variables).items()}
        hosts = given.pop("SLURM_JOB_HOSTS", None)
        run = self.run("prolog.sh", **given, **({"hosts": hosts} if hosts is not None else {}))
        assert run.returncode == 0
        assert run.stdout == ""
        assert not list((self.folder / "tmp").iterdir())
        return run

    def applications(self) -> list[str]:
        with self.served.client() as client:
            return [each.name for each in client.state().applications]


@pytest.fixture
def cluster(served: Served, tmp_path: Path) -> Iterator[Cluster]:
    require_tools("curl")
    found = Cluster(tmp_path, served)
    for name in ("bin", "tokens", "tmp"):
        (tmp_path / name).mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o755)
    # The last limit counts: the scripts' own is for a cluster, not for a slow machine with tests.
    curl = tmp_path / "bin" / "curl"
    curl.write_text(f'#!/bin/sh\nexec {shutil.which("curl")} "$@" --max-time {PATIENCE_S}\n')
    curl.chmod(0o755)
    (tmp_path / "admin").write_text(f"{served.admin_token}\n")
    settings(found)
    yield found
    with served.client() as client:
        for name in found.applications():
            client.remove(name)


def settings(cluster: Cluster, url: str = "", tokens: str = "tokens", admin: str = "admin") -> None:
    folder = cluster.folder
    (folder / "slurm.env").write_text(
        f"WEFT_URL={url or cluster.served.url}\nWEFT_TOKEN_FILE={folder}/{admin}\n"
        f"WEFT_JOB_TOKENS={folder}/{tokens}\nPATH={folder}/bin:/usr/bin:/bin\n"
    )


def test_a_job_is_announced_given_its_token_and_removed(cluster: Cluster) -> None:
    run = cluster.prolog()
    assert run.stderr == ""
    file = cluster.folder / "tokens" / "job-4711"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with cluster.served.client() as client:
        placed = client.application("job-4711")
    assert placed.hosts == [f"h{number}" for number in range(8)]
    assert len(placed.keys) == 6
    # Slurm sets in the tasks what the task prolog exports.
    run = cluster.run("task_prolog.sh", SLURM_JOB_ID="4711", SLURMD_NODENAME="h3")
    lines = [line.split(" ", 1) for line in run.stdout.splitlines()]
    assert {first for first, _ in lines} == {"export"}
    given = dict(rest.split("=", 1) for _, rest in lines)
    assert given == {
        "WEFT_URL": cluster.served.url, "WEFT_APPLICATION": "job-4711", "WEFT_HOST": "h3",
        "WEFT_TOKEN": file.read_text().strip(), "UCX_IB_LID_PATH_BITS": "0",
    }  # fmt: skip
    run = cluster.run("task_prolog.sh", SLURM_JOB_ID="4711", UCX_IB_LID_PATH_BITS="1-3")
    assert "UCX" not in run.stdout  # as the user has set it
    with Client(given["WEFT_URL"], given["WEFT_TOKEN"]) as client:
        assert client.application(given["WEFT_APPLICATION"]).name == "job-4711"
        with pytest.raises(ServiceError):
            client.state()
    run = cluster.run("epilog.sh", SLURM_JOB_ID="4711", SLURM_JOB_COMMENT=COMMENT)
    assert (run.returncode, run.stderr) == (0, "")
    assert cluster.applications() == []
    assert not file.exists()
    run = cluster.run("task_prolog.sh", SLURM_JOB_ID="4711", SLURMD_NODENAME="h3")
    assert (run.returncode, run.stdout) == (0, "")


def test_the_token_is_for_the_user_of_the_job(cluster: Cluster) -> None:
    if os.geteuid() != 0:
        not_here("only root can give a file away")
    cluster.prolog(UID="12345")
    assert (cluster.folder / "tokens" / "job-4711").stat().st_uid == 12345


def test_without_root_the_token_is_shared_by_an_access_list(cluster: Cluster) -> None:
    programs = {"id": "echo 500", "setfacl": f'echo "$*" >{cluster.folder}/shared'}
    for name, text in programs.items():
        (cluster.folder / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (cluster.folder / "bin" / name).chmod(0o755)
    assert cluster.prolog(UID="12345").stderr == ""
    file = cluster.folder / "tokens" / "job-4711"
    assert (cluster.folder / "shared").read_text() == f"-m u:12345:r {file}\n"
    (cluster.folder / "bin" / "setfacl").write_text("#!/bin/sh\necho no access lists >&2; exit 1\n")
    assert "its token cannot be stored" in (run := cluster.prolog(UID="12345").stderr)
    assert run.endswith("no access lists\n")
    assert not file.exists()
    assert cluster.applications() == []


def test_a_requeued_job_is_announced_again(cluster: Cluster) -> None:
    cluster.prolog()
    first = (cluster.folder / "tokens" / "job-4711").read_text()
    run = cluster.prolog(HOSTS="h8 h9")
    assert run.stderr == ""
    assert (cluster.folder / "tokens" / "job-4711").read_text() != first
    with cluster.served.client() as client:
        assert client.application("job-4711").hosts == ["h8", "h9"]


@pytest.mark.parametrize("comment", ["", "no keys for me", "westweft:a"])
def test_jobs_that_do_not_ask_are_left_alone(cluster: Cluster, comment: str) -> None:
    settings(cluster, url="http://127.0.0.1:9")  # would be reported
    assert cluster.prolog(COMMENT=comment).stderr == ""
    run = cluster.run("epilog.sh", SLURM_JOB_ID="4711", SLURM_JOB_COMMENT=comment)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"COMMENT": 'weft:cartesian","name":"other'}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:$(touch${IFS}owned)"}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:`touch owned`"}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:a\\u0022b"}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:" + "a" * 300}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:cärtesian"}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:/etc/passwd"}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:"}, "no word 'weft:WORKLOAD'"),
        ({"COMMENT": "weft:nothing"}, "there is no workload 'nothing'"),
        ({"ID": "1;touch owned"}, "SLURM_JOB_ID is not a number"),
        ({"ID": "../../etc/x"}, "SLURM_JOB_ID is not a number"),
        ({"NODELIST": "other"}, "scontrol cannot list the hosts"),
        ({"HOSTS": 'h0 h1","h2'}, "a host has an unexpected name"),
        ({"HOSTS": "h0 $(touch${IFS}owned)"}, "a host has an unexpected name"),
        ({"HOSTS": "h0 *"}, "a host has an unexpected name"),
        ({"HOSTS": "h0 h99"}, "has no host h99"),
        ({"HOSTS": "h0 h0"}, "is named twice"),
        ({"UID": "0 -R"}, "its token cannot be stored"),
    ],
)
def test_bad_input_starts_the_job_without_keys(
    cluster: Cluster, variables: dict[str, str], reason: str
) -> None:
    run = cluster.prolog(**variables)
    assert run.stderr.startswith("weft: job ")
    assert "runs without routing keys" in run.stderr
    assert reason in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert cluster.applications() == []
    assert not list((cluster.folder / "tokens").iterdir())
    assert not list(Path.cwd().glob("owned"))


def test_hosts_of_another_job_are_refused(cluster: Cluster) -> None:
    cluster.prolog(ID="1")
    run = cluster.prolog(ID="2")
    assert "host h0 belongs to application job-1" in run.stderr
    assert cluster.applications() == ["job-1"]


def test_a_service_that_is_down_holds_up_nothing(cluster: Cluster) -> None:
    cluster.prolog()
    settings(cluster, url=f"http://127.0.0.1:{free_port()}")
    assert "runs without routing keys: curl" in cluster.prolog(ID="2").stderr
    run = cluster.run("epilog.sh", SLURM_JOB_ID="4711")
    assert run.returncode == 0
    assert "application job-4711 is not removed" in run.stderr
    settings(cluster)
    run = cluster.run("epilog.sh", SLURM_JOB_ID="4711")  # by hand, later
    assert (run.returncode, run.stderr) == (0, "")
    assert cluster.applications() == []


def test_wrong_settings_are_named(cluster: Cluster) -> None:
    settings(cluster, admin="missing")
    assert "missing cannot be read" in cluster.prolog().stderr
    (cluster.folder / "wrong").write_text("wrong")
    settings(cluster, admin="wrong")
    assert "this token does not give the right to this" in cluster.prolog().stderr
    settings(cluster, tokens="missing")
    assert "its token cannot be stored in" in cluster.prolog().stderr
    assert cluster.applications() == []


def test_tokens_are_not_arguments_of_programs(cluster: Cluster) -> None:
    """Arguments of all processes are readable by all users."""
    curl = cluster.folder / "bin" / "curl"
    curl.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >>"{cluster.folder}/seen"\nexec /usr/bin/curl "$@"\n'
    )
    curl.chmod(0o755)
    cluster.prolog()
    cluster.run("epilog.sh", SLURM_JOB_ID="4711")
    seen = (cluster.folder / "seen").read_text()
    assert seen.count("--request") == 3
    assert str(cluster.served.admin_token) not in seen


def test_advice_is_a_list_of_hosts_in_order(cluster: Cluster) -> None:
    run = cluster.run("advise.sh", "6", "cartesian:keys=true", LIST, hosts="h13 h1 h2 h0 h9 h5")
    assert run.returncode == 0, run.stderr
    with cluster.served.client() as client:
        best, *_ = client.advise(
            6, hosts=["h0", "h1", "h2", "h13", "h5", "h9"], workload="cartesian:keys=true"
        ).placements
    assert run.stdout.split() == best.hosts
    assert run.stderr == (
        f"placement {best.placement}: at most {best.contention:g} flows on a link, "
        f"{best.base_contention:g} with the base routes\n"
    )
    for arguments, reason in (
        (("4", "cartesian:keys=true"), "expected a number of hosts"),
        (("4;ls", "cartesian:keys=true", LIST), "is not a number"),
        (("4", 'x","y', LIST), "is not a workload"),
        (("4", "cartesian:keys=true", "other"), "cannot list the hosts"),
        (("400", "cartesian:keys=true", LIST), "400 hosts are wanted"),
    ):
        run = cluster.run("advise.sh", *arguments)
        assert (run.returncode, run.stdout) == (2, "")
        assert reason in run.stderr
