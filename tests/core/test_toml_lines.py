"""Lines of the keys of TOML files."""

from __future__ import annotations

import pytest

from weft.core.toml_lines import KeyPath, line_of

TEXT = """\
# [no]
a = 1
"b c".d = \"\"\"x \\\"\"\"
no = 3\"\"\"\"
e = [ # ]
  1, '#', "]",
  { f = 2, 'g' = [1,
     2] },
  1979-05-27 07:32:00, [
   5]
]
[t . u] # z
v.w = '''
no = 1
'''
v.x = "a # ] \\" "
"y" = { p.q = 1, r = { s = 2 } }
[[job]]
n = 1
[job.o]
k = 2
[[job]]
n = 3
[[job.list]]
m = +inf
"""

LINES: list[tuple[KeyPath, int | None]] = [
    (("a",), 2), (("b c",), 3), (("b c", "d"), 3), (("no",), None), (("e",), 5), (("e", 0), 6),
    (("e", 2), 6), (("e", 3, "f"), 7), (("e", 3, "g", 1), 8), (("e", 4), 9), (("e", 5, 0), 10),
    (("t",), 12), (("t", "u", "v", "w"), 13), (("t", "u", "v", "x"), 16), (("t", "u", "y"), 17),
    (("t", "u", "y", "p", "q"), 17), (("t", "u", "y", "r", "s"), 17), (("job", 0, "n"), 19),
    (("job", 0, "o", "k"), 21), (("job", 1), 22), (("job", 1, "n"), 23),
    (("job", 1, "list", 0, "m"), 25), (("job", 1, "none"), 22), (("e", 9), 5), (("x",), None),
]  # fmt: skip


@pytest.mark.parametrize(("path", "line"), LINES)
def test_keys_and_items_have_their_lines(path: KeyPath, line: int | None) -> None:
    assert line_of(TEXT, path) == line
