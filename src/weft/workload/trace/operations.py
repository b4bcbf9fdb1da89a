"""Execution of one-line statements, which add operations to a builder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from weft.kernels.hashing import uniforms
from weft.workload.builder import WorkloadBuilder
from weft.workload.program_order import NONE
from weft.workload.trace import nodes
from weft.workload.trace.collective import run_collective
from weft.workload.trace.errors import NOWHERE, FilePosition, TraceError
from weft.workload.trace.quantities import BYTES, TIME
from weft.workload.trace.scopes import Ints
from weft.workload.trace.values import Context, integer, real, same_everywhere
from weft.workload.workload import Kind

#: Half the width of a uniform distribution, in standard deviations.
_HALF_WIDTH = 3**0.5


class Operations:
    """Executor of one-line statements, with the state between them (requests, phases, draws).

    `seed`: seed of the computing times. `collectives`: whether the program has collectives, which
    use the tags below 0.
    """

    def __init__(self, builder: WorkloadBuilder, seed: int, collectives: bool, max_operations: int):
        self.builder = builder
        self._seed = seed
        self._collectives = collectives
        self._max_operations = max_operations
        # For each request name, the handle of each rank; -1 for none.
        self._requests: dict[str, Ints] = {}
        self._draws = np.zeros(builder.num_ranks, dtype=np.int64)
        self._phases = [""]
        self._number = {"": 0}
        self._phase = np.zeros(builder.num_ranks, dtype=np.int64)
        self._same_phase = True
        self._after: list[tuple[Ints, tuple[nodes.Dependency, ...], FilePosition]] = []

    def run(self, statement: nodes.Statement, context: Context) -> None:
        """Execute a one-line statement for the ranks of the context."""
        match statement:
            case nodes.Calc():
                self._calc(statement, context)
            case nodes.Message():
                self._message(statement, context)
            case nodes.SendRecv():
                self._sendrecv(statement, context)
            case nodes.Wait():
                self._wait(statement, context.ranks)
            case nodes.CollectiveCall():
                self._collective(statement, context)
            case nodes.KeyOperation():
                self._routing_key(statement, context)
            case nodes.SetPhase(text=text):
                self._enter_phase(text, context.ranks)

    def _parts(self, ranks: Ints) -> Iterator[slice | np.ndarray[Any, Any]]:
        """Let the builder enter each phase; yield the indices in `ranks` of the phase's ranks."""
        if self._same_phase:
            self.builder.phase(self._phases[self._phase[0]])
            yield slice(None)
            return
        phases = self._phase[ranks]
        for phase in np.unique(phases):
            self.builder.phase(self._phases[phase])
            yield np.flatnonzero(phases == phase)

    def _add(self, method: Any, ranks: Ints, *arguments: Any, **options: Any) -> Ints:
        """Call a builder's method for the ranks of each phase; return handles in rank order."""
        handles = np.full(len(ranks), NONE, dtype=np.int64)
        for part in self._parts(ranks):
            sliced = [_sliced(value, part) for value in arguments]
            part_options = {key: _sliced(value, part) for key, value in options.items()}
            part_handles = method(ranks[part], *sliced, **part_options)
            if part_handles is not None:
                handles[part] = part_handles
        return handles

    def _enter_phase(self, text: str, ranks: Ints) -> None:
        number = self._number.setdefault(text, len(self._phases))
        if number == len(self._phases):
            self._phases.append(text)
        self.builder.phase(text)
        self._phase[ranks] = number
        self._same_phase = bool(np.all(self._phase == self._phase[0]))

    def _calc(self, statement: nodes.Calc, context: Context) -> None:
        ranks = context.ranks
        duration = real(statement.mean, context, "a computing time", TIME)
        self._refuse_negative(duration, "a computing time", statement.mean, context)
        if statement.std is not None:
            std = real(statement.std, context, "a standard deviation", TIME)
            self._refuse_negative(std, "a standard deviation", statement.std, context)
            duration = self._drawn(ranks, duration, std)
        duration = np.asarray(duration, dtype=np.float64)
        cpu: Any = 0
        if statement.cpu is not None:
            cpu = integer(statement.cpu, context, "the number of a processor")
        if statement.after is not None:
            self._add_after(statement, ranks, Kind.CALC, duration_ns=duration, cpu=cpu)
        else:
            self._add(self.builder.calc, ranks, duration, cpu=cpu)

    def _drawn(self, ranks: Ints, mean: Any, std: Any) -> Any:
        """Draw uniform values of the given mean and standard deviation, clamped at 0."""
        draws = np.empty(len(ranks))
        uniforms(np.uint64(self._seed), ranks, self._draws[ranks], draws)
        self._draws[ranks] += 1
        return np.maximum(0.0, mean + np.asarray(std) * _HALF_WIDTH * (2 * draws - 1))

    @staticmethod
    def _refuse_negative(value: Any, what: str, node: nodes.Expression, context: Context) -> None:
        bad = np.asarray(value) < 0
        if bad.any():
            shown = np.asarray(value)[bad][0] if bad.ndim else value
            raise TraceError(
                f"{what} is {shown:g}{context.rank_text(bad)}; expected 0 or more",
                nodes.begin(node),
            )

    @staticmethod
    def _on(on: nodes.On | None, context: Context) -> tuple[Context, int]:
        """Return the context in the scope of the peers, and the communicator's number."""
        if on is None:
            return context, context.scope.comm
        if on.number is not None:
            return context, same_everywhere(on.number, context, "a communicator's number")
        ranks, named = context.ranks, context.scopes[on.scope]
        missing = named.group[ranks] < 0
        if missing.any():
            raise TraceError(
                f"rank {ranks[int(np.argmax(missing))]} is not in scope {named.name}", on.at
            )
        return replace(context, scope=named), named.comm

    def _size(self, node: nodes.Expression, context: Context) -> Any:
        size = integer(node, context, "a message size", BYTES)
        self._refuse_negative(size, "a message size", node, context)
        return size

    def _tag(self, node: nodes.Expression | None, context: Context) -> Any:
        if node is None:
            return 0
        tag = integer(node, context, "a tag")
        if self._collectives and np.any(np.asarray(tag) < 0):
            raise TraceError("tags below 0 are for collectives; expected 0 or more", node.at)
        return tag

    def _peer(self, peer: nodes.Peer, context: Context) -> Ints:
        """Return the world ranks of peers, -1 for no peer."""
        ranks, scope = context.ranks, context.scope
        match peer:
            case nodes.NullPeer():
                return np.full(len(ranks), NONE, dtype=np.int64)
            case nodes.Neighbour(sign=sign, axis=axis):
                coordinates = scope.coordinates(ranks)
                number = scope.axes.index(axis)
                coordinates[number] = coordinates[number] + (1 if sign == "+" else -1)
                return scope.at(ranks, coordinates)
            case nodes.Coordinates(values=values):
                wanted = [integer(value, context, "a coordinate") for value in values]
                return scope.at(ranks, [np.broadcast_to(value, len(ranks)) for value in wanted])
        local = np.broadcast_to(np.asarray(integer(peer, context, "a peer")), len(ranks))
        sizes = scope.size(ranks)
        bad = (local < 0) | (local >= sizes)
        if bad.any():
            first_bad = int(np.argmax(bad))
            hint = "; use NULL or an IF where there is no peer" if local[first_bad] == -1 else ""
            raise TraceError(
                f"rank {ranks[first_bad]}: there is no rank {local[first_bad]} in {scope.name}, "
                f"whose ranks are 0 to {sizes[first_bad] - 1}{hint}",
                nodes.begin(peer),
            )
        return scope.world(ranks, local)

    def _message(self, statement: nodes.Message, context: Context) -> None:
        context, comm = self._on(statement.on, context)
        ranks = context.ranks
        size, tag = self._size(statement.size, context), self._tag(statement.tag, context)
        peers = self._peer(statement.peer, context)
        release: Any = 0.0
        if statement.release is not None:
            release = real(statement.release, context, "a release time", TIME)
        exists = peers != NONE
        selected = slice(None) if exists.all() else exists
        active_ranks, to = ranks[selected], peers[selected]
        size, tag, release = (_sliced(value, selected) for value in (size, tag, release))
        added = np.full(len(ranks), NONE, dtype=np.int64)
        if len(active_ranks):
            if statement.after is not None:
                kind = {"S": Kind.SEND, "R": Kind.RECV, "P": Kind.PUT}[
                    statement.verb.removeprefix("I")[0]
                ]
                added[selected] = self._add_after(
                    statement, active_ranks, kind, peer=to, size_bytes=size, tag=tag,
                    comm=0 if kind == Kind.PUT else comm, release_ns=release,
                )  # fmt: skip
            elif statement.verb == "PUT":
                put = self.builder.put
                added[selected] = self._add(put, active_ranks, to, size, tag, release_ns=release)
            else:
                method = getattr(self.builder, statement.verb.lower())
                added[selected] = self._add(method, active_ranks, to, size, tag, comm=comm)
        if statement.request:
            handles = self._requests.setdefault(
                statement.request, np.full(self.builder.num_ranks, NONE, dtype=np.int64)
            )
            handles[ranks] = added

    def _add_after(
        self, statement: nodes.Operation, ranks: Ints, kind: Kind, **columns: Any
    ) -> Ints:
        """Add operations with an AFTER list, which `add_dependencies` resolves at the end."""
        assert statement.after is not None
        handles = np.full(len(ranks), NONE, dtype=np.int64)
        for part in self._parts(ranks):
            part_columns = {key: _sliced(value, part) for key, value in columns.items()}
            handles[part] = self.builder.operations(
                ranks[part], np.full(len(ranks[part]), kind), **part_columns
            )
        self._after.append((handles, statement.after, statement.at))
        return handles

    def add_dependencies(self) -> None:
        """Add the dependencies of AFTER lists, after all operations are in program order."""
        if not self._after:
            return
        offset, order = self.builder.in_order()
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        for handles, dependencies, at in self._after:
            own = position[handles]
            rank = np.searchsorted(offset, own, side="right") - 1
            for dependency in dependencies:
                other = own - dependency.back
                bad = (other < offset[rank]) | (other >= offset[rank + 1]) | (other == own)
                if bad.any():
                    raise TraceError(
                        f"rank {rank[int(np.argmax(bad))]} has no operation {dependency.back} "
                        "positions before this one",
                        at if dependency.at == NOWHERE else dependency.at,
                    )
                self.builder.requires(handles, order[other], start=dependency.start)

    def _sendrecv(self, statement: nodes.SendRecv, context: Context) -> None:
        context, comm = self._on(statement.on, context)
        ranks = context.ranks
        size, tag = self._size(statement.size, context), self._tag(statement.tag, context)
        other = size
        if statement.recv_size is not None:
            other = self._size(statement.recv_size, context)
        to, source = self._peer(statement.to, context), self._peer(statement.source, context)
        self._add(self.builder.sendrecv, ranks, to, size, source, other, tag, comm=comm)

    def _wait(self, statement: nodes.Wait, ranks: Ints) -> None:
        if not statement.requests:
            self._add(self.builder.waitall, ranks)
            for handles in self._requests.values():
                handles[ranks] = NONE
            return
        handles = np.full((len(statement.requests), len(ranks)), NONE, dtype=np.int64)
        for row, name in zip(handles, statement.requests, strict=True):
            if name in self._requests:
                row[:] = self._requests[name][ranks]
                self._requests[name][ranks] = NONE
        for part in self._parts(ranks):
            self.builder.wait(ranks[part], handles[:, part])

    def _routing_key(self, statement: nodes.KeyOperation, context: Context) -> None:
        context, comm = self._on(statement.on, context)
        ranks = context.ranks
        key = integer(statement.key, context, "a routing key")
        tag = 0 if statement.tag is None else integer(statement.tag, context, "a tag")
        builder = self.builder
        is_request = statement.verb == "RODREQUEST"
        if statement.after is not None:
            kind = Kind.KEY_REQUEST if is_request else Kind.KEY_DONE
            self._add_after(statement, ranks, kind, tag=key, size_bytes=tag, comm=comm)
        else:
            method = builder.key_request if is_request else builder.key_done
            self._add(method, ranks, key, comm=comm, tag=tag)

    def _collective(self, statement: nodes.CollectiveCall, context: Context) -> None:
        if statement.scope:
            context, _ = self._on(nodes.On(scope=statement.scope, at=statement.at), context)
        ranks = context.ranks
        phases = self._phase[ranks]
        if np.any(phases != phases[0]):
            raise TraceError(
                f"rank {ranks[0]} is in phase {self._phases[phases[0]]!r} here, but others are not",
                statement.at,
            )
        self.builder.phase(self._phases[phases[0]])
        run_collective(self.builder, statement, context, self._max_operations)


def _sliced(value: Any, part: Any) -> Any:
    """Return a part of an array; return a single value as it is."""
    return value[part] if isinstance(value, np.ndarray) and value.ndim else value
