"""A real `weft serve` in a process of its own, for tests of programs that talk to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.processes import PATIENCE_S, wait_for
from weft.client import Client
from weft.core.errors import WeftError

#: Seconds for the service to start (kernels may have to be compiled) and to end.
END_S = 60


@dataclass(frozen=True)
class Served:
    """A running service.

    `environment` has WEFT_URL and, with tokens, the administrator's WEFT_TOKEN for its clients.
    """

    url: str
    admin_token: str | None
    process: subprocess.Popen[str]
    environment: dict[str, str]

    def client(self, token: str | None = None) -> Client:
        """Return a client; by default the administrator's."""
        return Client(self.url, token or self.admin_token, timeout_s=PATIENCE_S)

    def wait_ready(self, application: str) -> None:
        """Wait until no key of an application is being made."""
        with self.client() as client:
            wait_for(lambda: all(
                key.state != "making" for key in client.application(application).keys
            ))  # fmt: skip


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(
    fabric: str,
    folder: Path,
    *options: str,
    tokens: bool = False,
    port: int | None = None,
    tls: tuple[Path, Path] | None = None,
) -> Iterator[Served]:
    """Run `weft serve` until the block ends.

    Parameters
    ----------
    fabric
        The fabric, as on the command line.
    folder
        Where the store and the output (``serve.log``) are written.
    options
        Further options of the command.
    tokens
        Whether to require tokens.
    port
        Port to listen on; by default a free one.
    tls
        Certificate of 127.0.0.1, signed by itself, and its key.
    """
    port = port or free_port()
    log = folder / "serve.log"
    command = [sys.executable, "-m", "weft", "serve", fabric, "--port", str(port)]
    command += ["--store", str(folder / "store.sqlite"), *options, *["--tokens"] * tokens]
    command += ["--opensm-timeout", str(PATIENCE_S)]
    command += [] if tls is None else ["--tls-cert", str(tls[0]), "--tls-key", str(tls[1])]
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"}, start_new_session=True,
        )  # fmt: skip
    url = f"http{'s' * (tls is not None)}://127.0.0.1:{port}"
    try:
        _wait_healthy(url, tls and tls[0], process, log)
        _, found, rest = log.read_text().partition("token, shown only once: ")
        token = rest.split()[0] if found else None
        environment = {**os.environ, "WEFT_URL": url}
        environment.pop("WEFT_TOKEN", None)
        if token:
            environment["WEFT_TOKEN"] = token
        yield Served(url, token, process, environment)
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S)
        with suppress(ProcessLookupError):  # whatever is left of it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(END_S)


def _wait_healthy(
    url: str, certificate: Path | None, process: subprocess.Popen[str], log: Path
) -> None:
    with Client(url, timeout_s=5, ca_file=certificate) as client:

        def healthy() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                client.health()
            except WeftError:
                return False
            return True

        wait_for(healthy, log.read_text)
