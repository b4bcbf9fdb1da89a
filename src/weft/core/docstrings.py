"""Parser of numpydoc docstrings: sections, and meanings of parameters, for help texts."""

from __future__ import annotations

import re


def sections(docstring: str) -> list[tuple[str, str]]:
    """Return (title, text) of the sections of a docstring; the first one has no title."""
    first, *others = re.split(r"^(\S.*)\n-{3,}$", docstring, flags=re.MULTILINE)
    texts = [text.strip("\n") for text in others[1::2]]
    return [("", first.strip()), *zip(others[::2], texts, strict=True)]


def parameters(section: str) -> list[tuple[list[str], str]]:
    """Return the names and the indented text of each block in a section of parameters."""
    blocks = []
    for block in re.split(r"^(?=\S)", section, flags=re.MULTILINE):
        head, _, text = block.partition("\n")
        names = [name.strip() for name in head.partition(" :")[0].split(",")]
        blocks.append((names, text))
    return blocks


def meanings(docstring: str) -> dict[str, str]:
    """Return the meaning of each parameter, in one line; backticks are kept."""
    texts: dict[str, str] = {}
    for names, text in parameters(dict(sections(docstring)).get("Parameters", "")):
        texts |= dict.fromkeys(names, " ".join(text.split()))
    return texts
