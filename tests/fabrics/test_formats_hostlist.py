"""Slurm's host lists."""

from __future__ import annotations

import pytest

from weft.core.errors import InputError
from weft.fabrics.formats.hostlist import compress, expand


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["login"], "login"),
        (["n1"], "n1"),
        (["n1", "n2", "n3"], "n[1-3]"),
        (["sl390lin" + str(i) for i in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11)], "sl390lin[1-5,7-11]"),
        (["n001", "n002", "n010"], "n[001-002,010]"),
        (["n08", "n09", "n10", "n11"], "n[08-11]"),
        (["n8", "n9", "n10"], "n[8-10]"),
        (["n99", "n100"], "n[99-100]"),
        (["n099", "n100"], "n[099-100]"),
        (["n1", "n01", "n2"], "n[1-2,01]"),
        (["b2", "a1", "b1", "login"], "a1,b[1-2],login"),
        (["n", "n1"], "n1,n"),
        (["r1i0n0", "r1i0n1", "r2i0n0"], "r1i0n[0-1],r2i0n0"),
        (["H-003048c749450000", "H-003048c74ae20000"], "H-003048c749450000,H-003048c74ae20000"),
    ],
)
def test_names_are_compressed(names: list[str], text: str) -> None:
    assert compress(names) == text
    assert compress(reversed(names + names)) == text
    assert sorted(expand(text) if text else []) == sorted(set(names))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a[1-2]b[08-09]", ["a1b08", "a1b09", "a2b08", "a2b09"]),
        ("rack[0-1]-ib,x", ["rack0-ib", "rack1-ib", "x"]),
        (" a , b[3]", ["a", "b3"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[0-6/2,9]", ["n0", "n2", "n4", "n6", "n9"]),
        ("n[08-12/3]x[1,2]", ["n08x1", "n08x2", "n11x1", "n11x2"]),
        (' "a,[1]" , b[1-2], "say ""n""" ', ["a,[1]", "b1", "b2", 'say "n"']),
    ],
)
def test_lists_are_expanded(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('"n,m', "quote before 'n,m' is not closed"),
        ('"n"[1-3]', "nothing after the closing quote"),
        ("n[1-", "brackets do not match"),
        ("n[[1]]", "brackets inside brackets"),
        ("n[1-3/0]", "a step of 0"),
        ("n[1/2]", "expected numbers and ranges"),
        ("n[1-3/]", "expected numbers and ranges"),
        ("n]1[", "brackets do not match"),
        ("n[3-1]", "is descending"),
        ("n[a]", "expected numbers and ranges"),
        ("n[]", "expected numbers and ranges"),
        ("n[1,]", "expected numbers and ranges"),
        ("n,,m", "a name is missing"),
        ("", "a name is missing"),
        ("n[0-99999999999]", "more than 1,000,000"),
        ("n[1-999][1-999][1-999]", "more than 1,000,000"),
    ],
)
def test_malformed_lists_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        expand(text)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a[1]", "a=b", "a#b", "a\n"])
def test_names_that_no_list_can_hold_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="cannot be in a host list"):
        compress([name])
