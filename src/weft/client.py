"""Typed client of `weft serve`, whose import loads neither the service nor the rest of weft."""

from __future__ import annotations

import functools
import os
import ssl
import threading
import time
import warnings
from collections.abc import (
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    cast,
    overload,
)
from urllib.parse import quote

from pydantic import BaseModel, TypeAdapter, ValidationError

from weft.core.errors import InputError, WeftError
from weft.subnet.service import models

__all__ = ["Client", "Held", "RoutesWarning", "ServiceError"]

#: Where `weft serve` listens unless it is told otherwise.
DEFAULT_URL = "http://127.0.0.1:8973"
#: A phase: a traffic pattern, or the flows between ranks.
PhaseFlows = str | Iterable[tuple[int, int]]

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A", bound=BaseModel | None)


class ServiceError(WeftError):
    """An answer of the service that refuses a request.

    Parameters
    ----------
    status
        HTTP status, 400 or above.
    code
        What is wrong, as one word for programs: ``in_use``, ``not_ready``, ``host_taken`` …
    message
        The same as a sentence.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type[ServiceError], tuple[int, str, str]]:
        return type(self), (self.status, self.code, self.message)


class RoutesWarning(UserWarning):
    """Warning that a phase runs, or has run, on other routes than those of its key."""


@dataclass(frozen=True)
class _Call(Generic[A]):
    """A request: method, address, body or query, type of the answer, and how long it may wait."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    answer: type[A]
    body: BaseModel | None = None
    query: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0


class _endpoint(Generic[P, A]):  # noqa: N801 - a decorator
    """Turn a function that describes a call into a method that executes it."""

    def __init__(self, describe: Callable[Concatenate[Any, P], _Call[A]]) -> None:
        self._describe = describe

    @overload
    def __get__(self, client: None, owner: type) -> Callable[Concatenate[Any, P], _Call[A]]: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, A]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        if client is None:  # for documentation
            return self._describe

        def run(*arguments: P.args, **named: P.kwargs) -> Any:
            try:
                call = self._describe(client, *arguments, **named)
            except ValidationError as error:
                raise InputError(_first_of(error)) from None
            return client._run(call)

        return functools.wraps(self._describe)(run)


class Client:
    """A client of `weft serve`, for any number of threads.

    Parameters
    ----------
    url
        Address of the service; by default that of ``WEFT_URL``, or http://127.0.0.1:8973.
    token
        Token of the application or of the administrator; by default that of ``WEFT_TOKEN``.
    timeout_s
        Longest time for an answer in seconds, in addition to the `wait_s` of a call.
    ca_file
        Certificate (PEM) of the authority that signed the certificate of the service; by default
        that of ``WEFT_CA_FILE``, or those that httpx trusts.
    transport
        Transport of httpx in place of the network, for tests.

    Raises
    ------
    WeftError
        If httpx is not installed, or the certificate cannot be read. Every call raises it if the
        service cannot be reached or its answer is not one of `weft serve`, `ServiceError` if the
        service refuses the request, and `InputError` for an argument that cannot be right.

    Notes
    -----
    Where an application is expected, None stands for the one that ``WEFT_APPLICATION`` names.
    Proxies of the environment are not used, so that tokens do not leave the site.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        ca_file: str | Path | None = None,
        transport: Any = None,
    ) -> None:
        self.url = (url or os.environ.get("WEFT_URL") or DEFAULT_URL).rstrip("/")
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"the address of the service is {self.url!r}; expected http(s)://…")
        if not timeout_s > 0:
            raise InputError(f"timeout_s must be above 0 s, not {timeout_s:g}")
        self.timeout_s = timeout_s
        #: Addresses of keys that the application may hold, since an answer was lost.
        self._unsure: set[str] = set()
        self._httpx = _load_httpx()
        token = (token or os.environ.get("WEFT_TOKEN") or "").strip()
        if not all("!" <= character <= "~" for character in token):  # which is not shown
            raise InputError("the token has a space or a character that no token has")
        ca_file = ca_file or os.environ.get("WEFT_CA_FILE")
        try:
            verify = ssl.create_default_context(cafile=ca_file) if ca_file else True
        except (OSError, ssl.SSLError) as error:
            raise InputError(f"no certificate can be read: {error}", file=ca_file) from None
        try:
            self._client = self._httpx.Client(
                base_url=self.url, verify=verify, transport=transport, trust_env=False,
                headers={"Authorization": f"Bearer {token}"} if token else {},
            )  # fmt: skip
        except self._httpx.InvalidURL as error:
            raise InputError(f"the address of the service is wrong: {error}") from None

    # -- calls -------------------------------------------------------------------------------

    @_endpoint
    def health(self) -> _Call[models.Health]:
        """Return whether the service is well; this needs no token."""
        return _Call("GET", "/v1/health", models.Health)

    @_endpoint
    def state(self) -> _Call[models.State]:
        """Return who holds which key, and where keys meet."""
        return _Call("GET", "/v1/state", models.State)

    @_endpoint
    def place(
        self,
        name: str,
        *,
        hosts: Sequence[str] | None = None,
        num_hosts: int | None = None,
        phases: Mapping[str, PhaseFlows] | None = None,
        workload: str | None = None,
    ) -> _Call[models.Placed]:
        """Place an application, and begin to make its keys; the answer has its token.

        Parameters
        ----------
        name
            Name of the application.
        hosts, num_hosts
            Host of each rank, or a number of hosts that the service chooses.
        phases, workload
            For each phase a traffic pattern or its flows (pairs of ranks), or a workload such as
            ``cartesian:keys=true``.
        """
        body = models.ApplicationRequest(
            name=name, hosts=_listed(hosts), num_hosts=num_hosts, phases=_phases(phases),
            workload=workload,
        )  # fmt: skip
        return _Call("POST", "/v1/applications", models.Placed, body)

    @_endpoint
    def advise(
        self,
        num_hosts: int,
        *,
        hosts: Sequence[str] | None = None,
        phases: Mapping[str, PhaseFlows] | None = None,
        workload: str | None = None,
    ) -> _Call[models.AdviceAnswer]:
        """Return which hosts an application should use in which order, the best first.

        Parameters
        ----------
        num_hosts
            Number of hosts that the application needs.
        hosts
            Hosts to choose among; by default all that are free.
        phases, workload
            As for `place`; may be left out.
        """
        body = models.AdviceRequest(
            num_hosts=num_hosts, hosts=_listed(hosts), phases=_phases(phases), workload=workload
        )
        return _Call("POST", "/v1/advice", models.AdviceAnswer, body)

    @_endpoint
    def application(self, application: str | None) -> _Call[models.ApplicationAnswer]:
        """Return an application and the state of its keys."""
        return _Call("GET", _path(application), models.ApplicationAnswer)

    @_endpoint
    def remove(self, application: str | None) -> _Call[None]:
        """Remove an application: give back its keys and free its hosts."""
        return _Call("DELETE", _path(application), type(None))

    @_endpoint
    def key(self, application: str | None, phase: str) -> _Call[models.KeyAnswer]:
        """Return the key of a phase, with the paths of each of its alternatives."""
        return _Call("GET", _path(application, phase), models.KeyAnswer)

    @_endpoint
    def request(
        self,
        application: str | None,
        phase: str,
        *,
        lease_s: float | None = None,
        wait_s: float = 0.0,
        paths: bool = False,
        again: bool = False,
    ) -> _Call[models.Grant]:
        """Ask for the key of a phase that begins (RODRequest).

        If this client got no answer to its last request or return of the key, it does not know
        whether the application holds it; the grant is then returned as with `again`.

        Parameters
        ----------
        application, phase
            Names.
        lease_s
            Time in seconds after which the service takes the key back unless `renew` is called; by
            default that of the service.
        wait_s
            How long to wait, in seconds, if the tables of the key are not loaded yet.
        paths
            Whether the answer lists the path of each flow.
        again
            Whether to renew and return the grant that the application holds, if it does.
        """
        path = _path(application, phase)
        again = again or path in self._unsure
        body = models.KeyRequest(lease_s=lease_s, wait_s=wait_s, paths=paths, again=again)
        return _Call("POST", f"{path}/request", models.Grant, body, wait_s=wait_s)

    @_endpoint
    def done(
        self, application: str | None, phase: str, *, since_ns: int | None = None
    ) -> _Call[models.Returned]:
        """Give back the key of a phase that has ended (RODDone).

        Parameters
        ----------
        application, phase
            Names.
        since_ns
            Time of the grant, so that a later one is left as it is.
        """
        body = None if since_ns is None else models.KeyReturn(since_ns=since_ns)
        return _Call("POST", f"{_path(application, phase)}/done", models.Returned, body)

    @_endpoint
    def renew(self, application: str | None) -> _Call[models.Renewal]:
        """Restart the leases of all keys that an application holds."""
        return _Call("POST", f"{_path(application)}/renew", models.Renewal)

    @_endpoint
    def changes(
        self, application: str | None, after: int = 0, wait_s: float = 0.0
    ) -> _Call[models.Changes]:
        """Return what happened to the keys of an application since the change `after`.

        Parameters
        ----------
        application
            Its name.
        after
            `version` of the previous answer; 0 for all changes that the service remembers.
        wait_s
            How long to wait for a change, in seconds, if there is none yet.
        """
        query = {"after": str(after), "wait_s": str(wait_s)}
        return _Call("GET", f"{_path(application)}/changes", models.Changes, None, query, wait_s)

    # -- keys that are held ------------------------------------------------------------------

    def hold(
        self,
        application: str | None,
        phase: str,
        *,
        lease_s: float | None = None,
        wait_s: float = 0.0,
        paths: bool = False,
    ) -> Held:
        """Request a key as `request` does, and renew its lease until `Held.done`."""
        grant = self.request(application, phase, lease_s=lease_s, wait_s=wait_s, paths=paths)
        return Held(self, grant)

    @contextmanager
    def phase(
        self,
        application: str | None,
        phase: str,
        *,
        lease_s: float | None = None,
        wait_s: float = 0.0,
        paths: bool = False,
    ) -> Iterator[Held]:
        """Hold the key of a phase in a ``with`` block, as `hold` does."""
        held = self.hold(application, phase, lease_s=lease_s, wait_s=wait_s, paths=paths)
        try:
            yield held
        finally:
            held.done()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests and answers ----------------------------------------------------------------

    def _run(self, call: _Call[A], /) -> A:
        try:
            response = self._client.request(**self._sent(call))
        except BaseException as error:  # also if the caller is interrupted
            raise self._no_answer(call, error) from None
        return self._received(call, response)

    def _sent(self, call: _Call[A]) -> dict[str, Any]:
        """Return the arguments of httpx's method `request`."""
        arguments: dict[str, Any] = {
            "method": call.method, "url": call.path, "params": call.query,
            "timeout": self.timeout_s + call.wait_s,
        }  # fmt: skip
        if call.body is not None:
            arguments["content"] = call.body.model_dump_json(exclude_defaults=True)
            arguments["headers"] = {"Content-Type": "application/json"}
        return arguments

    def _received(self, call: _Call[A], response: Any) -> A:
        """Return the content of an answer."""
        if response.status_code < 500 and response.status_code != 429:
            self._unsure.discard(_key_of(call))
        if response.status_code >= 400:
            raise _refusal(response.status_code, response.content)
        if call.answer is type(None):
            return cast(A, None)
        try:
            return TypeAdapter(call.answer).validate_json(response.content)
        except ValidationError as error:
            raise WeftError(
                f"the answer of {self.url} is not one of weft serve: {_first_of(error)}"
            ) from None

    def _no_answer(self, call: _Call[A], error: BaseException) -> BaseException:
        """Return the error for a request without an answer."""
        never_sent = self._httpx.ConnectError, self._httpx.ConnectTimeout, self._httpx.PoolTimeout
        if call.answer in (models.Grant, models.Returned) and not isinstance(error, never_sent):
            self._unsure.add(_key_of(call))
        if not isinstance(error, self._httpx.RequestError):
            return error
        if isinstance(error, self._httpx.TimeoutException):
            why = f"no answer within {self.timeout_s:g} s"
        else:
            why = str(error) or type(error).__name__
            if "CERTIFICATE_VERIFY_FAILED" in why:
                why += "; WEFT_CA_FILE names the certificate of an authority to trust"
        return WeftError(f"cannot reach weft serve at {self.url}: {why}")


def _load_httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise WeftError(
            f"the client of weft serve needs {error.name}: pip install 'weft[serve]' or 'weft[mpi]'"
        ) from None
    return httpx


def _refusal(status: int, content: bytes) -> ServiceError:
    try:
        error = models.Error.model_validate_json(content).error
    except ValidationError:  # of something between the client and the service
        text = content[:200].decode(errors="replace").strip()
        return ServiceError(status, "unknown", f"HTTP status {status}: {text}")
    return ServiceError(status, error.code, error.message)


def _first_of(error: ValidationError) -> str:
    first, *_ = error.errors(include_url=False)
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def _key_of(call: _Call[Any]) -> str:
    """Return the address of the key that is requested or returned."""
    return call.path.rpartition("/")[0]


_NAME: TypeAdapter[str] = TypeAdapter(models.Name)


def _path(application: str | None, phase: str | None = None) -> str:
    """Return the address of an application or of a key."""
    application = default_application(application)
    names = [application] if phase is None else [application, phase]
    for name in names:
        try:
            _NAME.validate_python(name)
        except ValidationError:
            raise InputError(
                f"{name!r} is not the name of an application or phase: expected letters, digits "
                "and _ . : + @ -, beginning with a letter or digit"
            ) from None
    return "/v1/applications/" + "/keys/".join(quote(name, safe="") for name in names)


def default_application(application: str | None) -> str:
    """Return an application, or the one that ``WEFT_APPLICATION`` names."""
    found = application or os.environ.get("WEFT_APPLICATION")
    if not found:
        raise InputError("give the name of the application, or set WEFT_APPLICATION")
    return found


def _listed(hosts: Sequence[str] | None) -> list[str] | None:
    return None if hosts is None else list(hosts)


def _phases(phases: Mapping[str, PhaseFlows] | None) -> list[models.PhaseRequest] | None:
    if phases is None:
        return None
    return [
        models.PhaseRequest(name=name, pattern=flows)
        if isinstance(flows, str)
        else models.PhaseRequest(name=name, flows=list(flows))
        for name, flows in phases.items()
    ]


# -- leases ------------------------------------------------------------------------------------


class Held:
    """A key that is held until `done`; a thread renews its lease (see `Client.hold`).

    Attributes
    ----------
    grant
        The grant, as it was renewed last.
    lost
        Why the key is no longer held; empty while it is.
    """

    def __init__(self, client: Client, grant: models.Grant) -> None:
        self.grant = grant
        self.lost = ""
        self._client = client
        self._until = time.monotonic() + grant.lease_s
        self._returned = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="weft-lease", daemon=True)
        self._thread.start()

    @property
    def _every_s(self) -> float:
        """Seconds between renewals: a lease outlives two that fail."""
        return max(self.grant.lease_s / 3, 0.02)

    def _renewed(self, renewal: models.Renewal) -> None:
        for grant in renewal.grants:
            if (grant.phase, grant.since_ns) == (self.grant.phase, self.grant.since_ns):
                paths = self.grant.paths
                self.grant = grant.model_copy(update={"paths": paths})
                self._until = time.monotonic() + grant.lease_s
                return
        self.lost = "the service has withdrawn it, or its lease has ended"

    def _not_renewed(self, error: WeftError) -> None:
        refused = isinstance(error, ServiceError) and error.status in (401, 403, 404)
        if refused or time.monotonic() >= self._until:
            self.lost = str(error)

    def _not_returned(self, error: ServiceError) -> None:
        if error.code not in ("not_held", "unknown_application"):
            raise error
        self.lost = error.message

    def _warn_if_lost(self) -> None:
        if self.lost:
            warnings.warn(
                f"{self.grant.application} no longer held the key of phase {self.grant.phase} at "
                f"its end: {self.lost}",
                RoutesWarning,
                stacklevel=3,
            )

    def _renew(self) -> None:
        while not self.lost and not self._over.wait(self._every_s):
            try:
                self._renewed(self._client.renew(self.grant.application))
            except WeftError as error:
                self._not_renewed(error)

    def done(self) -> None:
        """Give the key back; a second call does nothing unless the first one failed.

        Warns
        -----
        RoutesWarning
            If the key was no longer held.
        """
        if self._returned:
            return
        self._over.set()
        self._thread.join(1.0)  # a renewal under way does no harm
        if not self.lost:  # otherwise this would give back a later grant
            try:
                self._client.done(
                    self.grant.application, self.grant.phase, since_ns=self.grant.since_ns
                )
            except ServiceError as error:
                self._not_returned(error)
        self._returned = True
        self._warn_if_lost()
