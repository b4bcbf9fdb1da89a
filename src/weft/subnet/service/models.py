"""Bodies of requests and answers of the HTTP interface, version 1."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: Names of applications and phases, which are parts of addresses.
Name = Annotated[
    str,
    Field(
        min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+@-]*$",
        description="Letters, digits and _ . : + @ -, beginning with a letter or digit.",
    ),
]  # fmt: skip
Host = Annotated[str, Field(min_length=1, max_length=256, description="Name of a host.")]
Rank = Annotated[int, Field(ge=0, le=2**31 - 1)]
#: Longest lease in seconds.
LONGEST_S = 86400.0 * 365
Seconds = Annotated[float, Field(gt=0, le=LONGEST_S)]
ChangeKind = Literal["ready", "failed", "withdrawn", "expired"]


class _Body(BaseModel):
    """A body; clients ignore unknown fields of answers, which later versions may add."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Request(_Body):
    """A body of a request, in which unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PhaseRequest(_Request):
    """A phase: its flows between ranks, or a traffic pattern among all ranks."""

    name: Name
    flows: list[tuple[Rank, Rank]] | None = Field(
        default=None,
        max_length=4_000_000,
        fail_fast=True,
        description="Source and destination rank of each flow.",
    )
    pattern: str | None = Field(
        default=None,
        max_length=256,
        description="A pattern of 'weft list patterns', as in 'shift:offset=1'.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> PhaseRequest:
        if (self.flows is None) == (self.pattern is None):
            raise ValueError("expected flows or pattern, and not both")
        return self


class ApplicationRequest(_Request):
    """An application to place.

    Give the hosts in order of rank, or a number of hosts for the service to choose. Give the
    phases, or a workload that defines them.
    """

    name: Name
    hosts: list[Host] | None = Field(default=None, min_length=1, max_length=1_000_000)
    num_hosts: int | None = Field(default=None, ge=1, le=1_000_000)
    phases: list[PhaseRequest] | None = Field(default=None, min_length=1, max_length=1024)
    workload: str | None = Field(
        default=None, max_length=256,
        description="A workload by name, as in 'cartesian:keys=true'; not a file.",
    )  # fmt: skip

    @model_validator(mode="after")
    def _one_of_each(self) -> ApplicationRequest:
        if (self.hosts is None) == (self.num_hosts is None):
            raise ValueError("expected hosts or num_hosts, and not both")
        if (self.phases is None) == (self.workload is None):
            raise ValueError("expected phases or workload, and not both")
        return self


class KeySummary(_Body):
    """The key of a phase."""

    phase: str
    state: Literal["making", "ready", "failed"]
    flows: int
    alternatives: int = Field(
        description="Alternatives in the forwarding tables; 0 until the key is ready."
    )
    generation: int = Field(description="How many times the key has been made.")
    reason: str = Field(
        description="Why the key has failed or is being made again, if so; otherwise empty."
    )
    granted: bool


class ApplicationAnswer(_Body):
    """An application and its keys."""

    name: str
    hosts: list[str] = Field(description="Host of each rank.")
    keys: list[KeySummary]


class Placed(ApplicationAnswer):
    """A new application."""

    token: str = Field(description="Token of the application, shown only once.")


class Path(_Body):
    """The path of one flow."""

    source: int = Field(description="Rank.")
    destination: int = Field(description="Rank.")
    path_bits: int = Field(description="Offset from the base LID of the destination.")
    dlid: int | None = Field(description="LID of the destination; None without a subnet manager.")


class Alternative(_Body):
    """One set of paths of a key."""

    number: int
    paths: list[Path]


class KeyAnswer(KeySummary):
    """The key of a phase with the paths of each alternative."""

    alternatives_paths: list[Alternative]


class KeyRequest(_Request):
    """A request of a key (RODRequest)."""

    lease_s: Seconds | None = Field(
        default=None,
        description="Time after which the grant ends unless it is renewed, in seconds.",
    )
    wait_s: float = Field(
        default=0.0,
        ge=0.0,
        le=600.0,
        description="How long to wait if the key is not in the tables yet, in seconds.",
    )
    paths: bool = Field(
        default=False, description="Whether the answer lists the path of each flow."
    )
    again: bool = Field(
        default=False,
        description="If the application holds the key already, renew that grant with its lease and "
        "return it, for example because the answer to an earlier request was lost.",
    )


class KeyReturn(_Request):
    """The return of a key (RODDone)."""

    since_ns: int | None = Field(
        default=None, description="Time of the grant; a later grant is then left as it is."
    )


class Grant(_Body):
    """A granted key."""

    application: str
    phase: str
    alternative: int = Field(description="Number of the alternative, -1 for the base routes.")
    generation: int = Field(description="How many times the key had been made when it was granted.")
    since_ns: int = Field(description="Time of the grant, in ns since 1970.")
    lease_s: float
    until_ns: int = Field(description="End of the lease, in ns since 1970.")
    contention: int = Field(
        description="Most flows of all granted keys on a link between switches that this key uses."
    )
    base_contention: int = Field(description="The same if all granted keys took the base routes.")
    paths: list[Path] | None = None


class Renewal(_Body):
    """Grants whose lease was restarted."""

    grants: list[Grant]


class Change(_Body):
    """Something that happened to the key of a phase."""

    number: int
    kind: ChangeKind
    phase: str
    reason: str


class Changes(_Body):
    """Changes of an application's keys."""

    version: int = Field(description="Value of `after` for the next request.")
    changes: list[Change]


class Health(_Body):
    """Whether the service is well."""

    weft: str
    fabric: str
    hosts: int
    problems: list[str] = Field(description="Empty if all is well.")


class Returned(_Body):
    """A key that was given back."""

    application: str
    phase: str


class AdviceRequest(_Request):
    """A request for advice on which free hosts to use, and in which order."""

    num_hosts: int = Field(ge=1, le=1_000_000)
    hosts: list[Host] | None = Field(
        default=None, description="Hosts to choose from; those in use are left out. By default all."
    )
    phases: list[PhaseRequest] | None = Field(default=None, min_length=1, max_length=1024)
    workload: str | None = Field(default=None, max_length=256)


class AdvicePlacement(_Body):
    """A placement and its contention."""

    placement: str
    hosts: list[str]
    contention: float = Field(
        description="Most flows of a phase on a link between switches, with routing keys."
    )
    base_contention: float = Field(description="The same with the base routes.")
    leaf_switches: int = Field(description="Leaf switches that the hosts are on.")


class AdviceAnswer(_Body):
    """Placements, the best first."""

    placements: list[AdvicePlacement]


class Meeting(_Body):
    """A link and the keys that have flows on it."""

    link: str
    flows: int
    keys: list[str]


class GrantSummary(_Body):
    """A granted key in the state."""

    application: str
    phase: str
    alternative: int
    since_ns: int
    until_ns: int


class SubnetState(_Body):
    """What the service knows of the subnet manager."""

    manager: Literal["none", "opensm"]
    missing_cables: list[str]
    reloads: int
    last_reload_s: float | None
    problem: str


class State(_Body):
    """The state of the service, for the page and for monitoring."""

    version: int = Field(description="Number of the last event; the state changes only with it.")
    time_ns: int
    fabric: str
    hosts: int
    applications: list[ApplicationAnswer]
    grants: list[GrantSummary]
    contention: int = Field(description="Most flows of granted keys on a link between switches.")
    base_contention: int = Field(description="The same if all granted keys took the base routes.")
    meetings: list[Meeting] = Field(description="The links on which most flows meet.")
    base_meetings: list[Meeting]
    subnet: SubnetState
    problems: list[str] = Field(description="As in Health.")


class CableRequest(_Request):
    """A cable of a simulated subnet."""

    port: str = Field(max_length=256, description="One of its ports, as in 'leaf3[12]'.")


class Unplugged(_Body):
    """The cables of a simulated subnet that are unplugged."""

    unplugged: list[str] = Field(description="A port of each, as it was given.")


class ErrorContent(_Body):
    """What is wrong: a code for programs, and a message for people."""

    status: int
    code: str
    message: str


class Error(_Body):
    """The body of every answer with a status of 400 or above."""

    error: ErrorContent
