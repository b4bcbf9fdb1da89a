"""The log: events and decisions as lines of JSON, from which the decisions can be repeated."""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.files import read_text
from weft.sim.keys.alternatives import InstalledKey
from weft.subnet.service.ledger import (
    Announced,
    Decision,
    Event,
    Granted,
    KeyGivenBack,
    KeyState,
    Made,
    Snapshot,
    Withdrawn,
)

#: Names of the classes of events in the log, and the reverse.
_NAMES = {each: each.__name__.lower() for each in get_args(Event)} | {KeyGivenBack: "returned"}
EVENTS = {name: each for each, name in _NAMES.items()}
_ARRAYS = ("sources", "destinations", "offset", "link", "lid_offset")


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return named arrays as bytes; the same arrays give the same bytes."""
    stream = io.BytesIO()
    np.savez(stream, **dict(arrays))  # type: ignore[arg-type]
    return zlib.compress(stream.getvalue(), 1)


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays that `pack` packed."""
    with np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False) as arrays:
        return dict(arrays)


def pack_key(key: InstalledKey) -> bytes:
    """Return the paths of a key as bytes."""
    return pack({name: getattr(key, name) for name in _ARRAYS})


def unpack_key(name: str, data: bytes) -> InstalledKey:
    """Return the key whose paths `pack_key` packed."""
    arrays = unpack(data)
    key = InstalledKey(name, *(arrays[each] for each in _ARRAYS))
    flows = (key.sources, key.destinations, *key.lid_offset)
    every = (*flows, key.offset, key.link)
    if (
        key.lid_offset.ndim != 2
        or any(each.ndim != 1 or each.dtype.kind not in "iu" for each in every)
        or any(len(each) != len(key.sources) for each in flows)
        or len(key.offset) != key.lid_offset.size + 1
        or (key.offset[0], key.offset[-1]) != (0, len(key.link))
        or (np.diff(key.offset) < 0).any()
        or (key.link < 0).any()
        or not len(key.lid_offset)
    ):
        raise ValueError("is not a key")
    return key


def packed(event: Event) -> tuple[bytes | None, bytes | None]:
    """Return the arrays of an event, which `event_json` leaves out, as bytes.

    They are the paths of a made key and of the base routes, or the flows of the phases of an
    application.
    """
    match event:
        case Made():
            return pack_key(event.key), pack_key(event.base)
        case Announced():
            flows = event.phases.values()
            return pack({f"{at}": np.array(each, np.int32) for at, each in enumerate(flows)}), None
    return None, None


def event_json(event: Event) -> str:
    """Return an event as JSON, without its arrays: see `packed`."""
    content = {"event": _NAMES[type(event)], **vars(event)}
    if isinstance(event, Made):
        del content["key"], content["base"]
    elif isinstance(event, Announced):
        content["phases"] = list(event.phases)
    return json.dumps(content, default=asdict, separators=(",", ":"))


def answer_json(answer: Decision) -> str:
    """Return what an event has changed as JSON."""
    return json.dumps(asdict(answer), separators=(",", ":"))


def line(
    number: int, event: str, answer: str, key: bytes | None = None, base: bytes | None = None
) -> str:
    """Return a line of the log.

    `event`, `answer`: texts of `event_json` and `answer_json`. `key`, `base`: as `packed` returns
    them.
    """
    texts = {
        name: base64.b64encode(data).decode()
        for name, data in (("key", key), ("base", base))
        if data is not None
    }
    arrays = f',"arrays":{json.dumps(texts)}' if texts else ""
    return f'{{"number":{number},"decision":{answer}{arrays},{event[1:]}'


def read_event(content: dict[str, Any], key: bytes | None, base: bytes | None) -> Event:
    """Return the event that `event_json` wrote."""
    rest = dict(content)
    kind = EVENTS.get(str(rest.pop("event", "")))
    try:
        if kind is None:
            raise TypeError
        _check_types(kind, rest)
        if issubclass(kind, Made):
            if key is None or base is None:
                raise TypeError
            rest["key"] = unpack_key(rest["phase"], key)
            rest["base"] = unpack_key(rest["phase"], base)
        elif kind is Announced:
            rest["hosts"] = tuple(rest["hosts"])
            if key is None or any(type(host) is not int for host in rest["hosts"]):
                raise TypeError
            flows = unpack(key)
            rest["phases"] = {str(name): flows[f"{at}"] for at, name in enumerate(rest["phases"])}
            for ends in flows.values():
                if ends.ndim != 2 or len(ends) != 2 or ends.dtype.kind not in "iu":
                    raise TypeError
        elif kind is Withdrawn:
            rest["keys"] = tuple((str(name), str(phase)) for name, phase in rest["keys"])
        elif kind is Snapshot:
            rest["keys"] = tuple(
                (str(name), str(phase), KeyState(state), str(reason), int(generation))
                for name, phase, state, reason, generation in rest["keys"]
            )
            for each in rest["grants"]:
                _check_types(Granted, each)
            rest["grants"] = tuple(Granted(**each) for each in rest["grants"])
        event: Event = kind(**rest)
    except (TypeError, LookupError, ValueError, EOFError, zlib.error, zipfile.BadZipFile):
        raise InputError("is not an event of a log of weft serve") from None
    return event


def _check_types(kind: type[Any], values: dict[str, Any]) -> None:
    """Check the types of numbers and texts; raise `TypeError` or `LookupError`."""
    for each in fields(kind):
        if each.type in ("int", "str", "bool") and type(values[each.name]).__name__ != each.type:
            raise TypeError


def read_log(path: str | Path) -> Iterator[tuple[Event, str]]:
    """Read a log: each event, and its decision as JSON."""
    for number, text in enumerate(read_text(path).splitlines(), 1):
        yield read_line(text, path, number)


def read_line(text: str, path: str | Path, number: int) -> tuple[Event, str]:
    """Read a line of a log; file and number are for messages. See `read_log`."""
    try:
        content = json.loads(text)
        content.pop("number", None)
        decision = content.pop("decision")
        arrays = {name: base64.b64decode(data) for name, data in content.pop("arrays", {}).items()}
        event = read_event(content, arrays.get("key"), arrays.get("base"))
    except InputError as error:
        raise InputError(error.message, file=path, line=number) from None
    except (ValueError, AttributeError, KeyError, TypeError):
        raise InputError("is not a line of a log of weft serve", file=path, line=number) from None
    return event, json.dumps(decision, separators=(",", ":"))
