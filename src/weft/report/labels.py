"""Short and unique labels for the names in a drawing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

#: Maximum length of a label, unless names need more to be unique.
MOST = 22


def short_names(names: Sequence[str], most: int = MOST) -> list[str]:
    """Return short labels for names; different names have different labels.

    Names with equal separators are compared word by word: first, runs of words that all of them
    share are removed, the longest run first. If a name is still too long, its middle is removed,
    as far as the name remains unique.

    `names`: all names that are shown together, each once. `most`: maximum length of a label, if
    that is enough for unique labels.

    Returns one label per name; names of at most `most` characters are unchanged.
    """
    words = [re.split(r"([^0-9A-Za-z]+)", name) for name in names]
    shapes: dict[tuple[str, ...], list[int]] = {}
    for i, name in enumerate(names):
        if len(name) > most:
            shapes.setdefault(tuple(words[i][1::2]), []).append(i)
    short = list(names)
    for members in shapes.values():
        columns = zip(*(words[i] for i in members), strict=True)
        same = [len(set(column)) == 1 for column in columns]
        for i in members if len(members) > 1 else []:
            short[i] = _without_common(words[i], same, most)
    used = {text for text, count in Counter(short).items() if count == 1 and len(text) <= most}
    for i, name in enumerate(names):
        if short[i] in used:
            continue
        room = most
        while len(name) > room and shortened(name, room) in used:
            room += 1
        short[i] = shortened(name, room)
        used.add(short[i])
    return short


def _without_common(words: list[str], same: list[bool], most: int) -> str:
    """Remove runs of common words, the longest first, until the rest is short enough."""
    runs: list[tuple[int, int]] = []
    for at, common in enumerate(same):
        if common and runs and runs[-1][1] == at:
            runs[-1] = (runs[-1][0], at + 1)
        elif common:
            runs.append((at, at + 1))
    runs.sort(key=lambda run: -sum(map(len, words[slice(*run)])))
    kept = list(words)
    for start, end in runs:
        if sum(map(len, kept)) <= most or sum(map(len, words[start:end])) < 2:
            break
        text = "".join(words[start:end])
        # The beginning of a name is kept as far as there is room.
        room = max(0, most - sum(map(len, kept)) + len(text) - 1) if start == 0 else 0
        kept[start:end] = [text[:room] + "…"] + [""] * (end - start - 1)
    return "".join(kept)


def shortened(text: str, most: int = MOST) -> str:
    """Remove the middle of a text that is longer than `most` characters."""
    if len(text) <= most:
        return text
    head = -(-most * 3 // 5)
    return f"{text[: head - 1]}…{text[len(text) - (most - head) :]}"
