"""Engines to use instead of the tables in place, by the figures that `compare` gives for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.advice.compare import compare, judge
from weft.advice.comparison import Comparison, EngineOutcome, change_to, is_own
from weft.core.errors import InputError
from weft.fabrics import Fabric
from weft.routing import engine
from weft.routing.routes import Routes
from weft.routing.validation.validate import Validation

#: Name of the tables in place among the outcomes of engines.
IN_PLACE = "the tables in place"
#: Hosts times random bisections of a large fabric.
_MOST_FLOWS = 1_000_000
#: Most alternatives that are named.
MOST = 3
#: Options with which an engine of OpenSM fits more fabrics; they need a file.
_OPTIONS = ("updn:roots=auto;balance=opensm", "updn:roots=center;balance=opensm")
#: Engines of weft whose tables OpenSM can load.
_TABLES = ("hdor", "dmodk", "updn", "minhop")
#: Engines with lanes against deadlock, which are compared only if the tables are not valid.
_LANES = ("lash", "dfsssp", "torus-2QoS", "nue")


@dataclass(frozen=True)
class BetterEngine:
    """An engine that cures the findings, or has clearly better figures."""

    #: The engine, as `compare` names it.
    engine: str
    #: What to change, and what that costs.
    change: str
    #: Virtual lanes that its routes need.
    lanes: int
    #: Largest load of a link between switches under all-to-all, and share of the injection rate
    #: over random bisections: the columns ``max_load`` and ``ebb`` of `compare`.
    worst: float
    bandwidth: float
    #: Whether one of the two is clearly worse than that of the tables in place.
    worse: bool = False
    #: Whether it removes errors; otherwise its figures are clearly better.
    cures: bool = False


@dataclass(frozen=True, eq=False)
class ComparedInPlace:
    """Comparison of the tables in place with engines whose routes OpenSM can use."""

    result: Comparison
    #: Outcome of the tables in place, and of the engines with valid routes, best first.
    place: EngineOutcome
    usable: tuple[EngineOutcome, ...]
    #: Engine of `usable` -> whether it has a clearly worse figure than the tables in place.
    worse: dict[str, bool]


def compare_in_place(
    fabric: Fabric,
    tables: Routes,
    checked: Validation,
    *,
    engines: Sequence[str] = (),
    valid: bool,
) -> ComparedInPlace:
    """Compare the tables in place with engines; see `alternatives`."""
    own = [
        entry.facts["as_opensm"]
        for entry in engine
        if "as_opensm" in entry.facts and not (valid and entry.name in _LANES)
    ]
    names = engines or [*own, *_OPTIONS, *_TABLES, *(() if valid else ("dfsssp",))]
    known = [name for name in dict.fromkeys(names) if _is_known(name)]
    # Each bisection of many hosts is a sample of many flows.
    samples = min(1000, max(100, _MOST_FLOWS // max(fabric.num_hosts, 1)))
    place = judge(fabric, IN_PLACE, tables, samples=samples, checked=checked)
    result = compare(fabric, known, [], samples=samples, others=(place,))
    usable = [
        o
        for o in result.outcomes
        # An engine from which OpenSM falls back cures nothing.
        if o is not place and o.serves and o.opensm_use and o.routes and not o.routes.refusals
    ]
    # Tables that leave out pairs have smaller loads for that reason.
    whole = checked.num_unrouted_pairs == checked.num_disconnected_pairs and not checked.num_loops
    worse = {o.name: whole and result.gain(place, o).significant for o in usable}

    return ComparedInPlace(result, place, tuple(usable), worse)


def alternatives(
    fabric: Fabric,
    tables: Routes,
    checked: Validation,
    *,
    in_place: str = "",
    requested: str = "",
    engines: Sequence[str] = (),
    valid: bool,
) -> tuple[Comparison, list[BetterEngine]]:
    """Return the comparison of the tables in place with engines, and the engines to use instead.

    `in_place`, `requested`: OpenSM's engine, and the one that was requested instead of which it is
    used; empty if not known, or not another one. An option of these is a smaller change than
    another engine. `engines`: engines to compare with the tables; by default those of OpenSM and
    some others. `valid`: whether the tables are valid. If so, only engines with clearly better and
    no clearly worse figures are returned (`Gain.significant`), and the requested engine; otherwise
    all that are valid come into question.

    The tables in place are an outcome of the comparison. The smallest change is first: an option of
    the engine in place, another engine of OpenSM, static tables. Further ones are listed only if
    their figures are clearly better still.
    """
    compared = compare_in_place(fabric, tables, checked, engines=engines, valid=valid)
    result, place, worse = compared.result, compared.place, compared.worse
    usable = list(compared.usable)

    def is_requested(outcome: EngineOutcome) -> bool:
        return is_own(outcome) and engine.parse(outcome.name)[0].name == requested

    def size(outcome: EngineOutcome) -> int:
        if not is_own(outcome):
            return 2
        return 0 if engine.parse(outcome.name)[0].name in (in_place, requested) else 1

    if valid:
        usable = [
            o
            for o in usable
            if not worse[o.name] and (result.gain(o, place).significant or is_requested(o))
        ]
    chosen: list[EngineOutcome] = []
    # Outcomes of one size keep the order of `compare`, best first.
    for outcome in sorted(usable, key=lambda each: (worse[each.name], size(each))):
        if not chosen or result.gain(outcome, chosen[-1]).significant:
            chosen.append(outcome)
    rows = {row["engine"]: row for row in result.table.iter_rows(named=True)}
    return result, [
        BetterEngine(
            outcome.name, change_to(fabric, outcome), rows[outcome.name]["lanes"],
            rows[outcome.name]["max_load"], rows[outcome.name]["ebb"], worse[outcome.name],
            not valid or is_requested(outcome),
        )
        for outcome in chosen[:MOST]
    ]  # fmt: skip


def _is_known(name: str) -> bool:
    try:
        engine.parse(name)
    except InputError:
        return False
    return True
