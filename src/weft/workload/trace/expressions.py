"""Reads expressions and peers, by precedence climbing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NoReturn

from weft.workload.trace import nodes
from weft.workload.trace.errors import TraceError
from weft.workload.trace.keywords import FUNCTIONS, MAX_DEPTH, OPTIONS
from weft.workload.trace.lexer import Token
from weft.workload.trace.quantities import quantity

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
#: How tightly operators bind; `not` is 3 and the sign 7.
LEVELS = {
    "or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4), "+": 5, "-": 5, "*": 6, "/": 6, "//": 6,
    "%": 6, "**": 8,
}  # fmt: skip
NOT, SIGN = 3, 7
#: Most operators in one expression.
MAX_OPERATORS = 100


class ExpressionParser(ABC):
    """A place in a list of tokens, and how to read expressions from there."""

    def __init__(self, found: Sequence[Token]):
        self._tokens = list(found)
        self._at = 0
        self._depth = 0
        self._operators = 0
        self.token = self._tokens[0]

    def advance(self) -> Token:
        """The current token, which is thereby read."""
        token = self.token
        if self._at + 1 < len(self._tokens):
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def forget_comment(self) -> None:
        """Let the comment at the end of the file belong to the last statement alone."""
        end = self.token
        self.token = Token(end.kind, end.text, end.line, end.column, "", end.end)

    def word(self) -> str:
        """The current token in capitals if it is a name, else nothing."""
        return self.token.text.upper() if self.token.kind == "name" else ""

    def accept(self, operator: str) -> bool:
        """Read an operator if it is there."""
        there = self.token.kind == "operator" and self.token.text == operator
        if there:
            self.advance()
        return there

    def accept_word(self, word: str) -> bool:
        """Read a word if it is there."""
        there = self.word() == word
        if there:
            self.advance()
        return there

    def expect(self, operator: str) -> None:
        """Read an operator that must be there."""
        if not self.accept(operator):
            self.fail(repr(operator))

    def expect_word(self, word: str) -> None:
        """Read a word that must be there."""
        if not self.accept_word(word):
            self.fail(word)

    @abstractmethod
    def fail(self, expected: str) -> NoReturn:
        """Refuse the current token."""

    def scope_name(self) -> str:
        """The name of a scope, ALL in capitals."""
        if self.token.kind != "name" or (self.word() in OPTIONS and self.word() != "ALL"):
            self.fail("the name of a scope, such as ALL")
        text = self.advance().text
        return "ALL" if text.upper() == "ALL" else text

    # -- expressions -------------------------------------------------------------------------------

    def expression(self, level: int = 1) -> nodes.Expression:
        """An expression of operators that bind at least as tightly as `level`."""
        if self._depth == 0:
            self._operators = 0
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TraceError(
                f"an expression is nested more than {MAX_DEPTH} deep", self.token.place
            )
        left = self._operand(level)
        while (operator := self._operator()) and LEVELS[operator] >= level:
            token = self.advance()
            self._operators += 1
            if self._operators > MAX_OPERATORS:
                raise TraceError(
                    f"an expression has more than {MAX_OPERATORS} operators", token.place
                )
            own = LEVELS[operator]
            right = self.expression(SIGN if operator == "**" else own + 1)
            left = nodes.Binary(operator, left, right, at=token.place)
            if operator in COMPARISONS and self.token.text in COMPARISONS:
                raise TraceError(
                    "two values are compared at a time; join comparisons with 'and'",
                    self.token.place,
                )
        self._depth -= 1
        return left

    def _operator(self) -> str:
        text = self.token.text.lower() if self.token.kind == "name" else self.token.text
        return text if self.token.kind in ("name", "operator") and text in LEVELS else ""

    def _operand(self, level: int) -> nodes.Expression:
        token = self.token
        if self.accept("-"):
            return nodes.Unary("-", self.expression(SIGN), at=token.place)
        if self.word() == "NOT":
            if level > NOT:
                raise TraceError("put this 'not' into parentheses", token.place)
            self.advance()
            return nodes.Unary("not", self.expression(NOT), at=token.place)
        if self.accept("("):
            inside = self.expression()
            self.expect(")")
            return inside
        if token.kind == "number":
            try:
                quantity(token.text)
            except ValueError as error:
                raise TraceError(str(error), token.place) from None
            return nodes.Number(self.advance().text, at=token.place)
        if token.kind != "name" or (self.word() in OPTIONS and self.word() != "ALL"):
            if token.text == "+":
                raise TraceError(
                    "a + before a value says nothing; +x stands only after TO and FROM, for the "
                    "neighbour along axis x",
                    token.place,
                )
            self.fail("a value")
        self.advance()
        if self.token.text == "(" and self.token.kind == "operator":
            return self._call(token)
        name = "ALL" if token.text.upper() == "ALL" else token.text
        return nodes.Name(name, at=token.place)

    def _call(self, token: Token) -> nodes.Expression:
        self.expect("(")
        arguments = []
        if self.token.text != ")":
            arguments.append(self.expression())
            while self.accept(","):
                arguments.append(self.expression())
        self.expect(")")
        if token.text == "at":
            raise TraceError("at(…) is a peer: it stands alone after TO and FROM", token.place)
        takes = FUNCTIONS.get(token.text)
        wrong = len(arguments) < 2 if takes == -1 else takes not in (None, len(arguments))
        if wrong:
            count = "two or more arguments" if takes == -1 else f"{takes} argument(s)"
            raise TraceError(f"{token.text} takes {count}, not {len(arguments)}", token.place)
        return nodes.Call(token.text, tuple(arguments), at=token.place)

    def peer(self) -> nodes.Peer:
        """Who is at the other side of a message."""
        token = self.token
        if self.accept_word("NULL"):
            return nodes.NullPeer(at=token.place)
        if token.text in ("+", "-") and token.kind == "operator":
            self.advance()
            if self.token.kind != "name":
                self.fail("an axis, as in +x; a rank that is computed begins with no sign")
            return nodes.Neighbour(token.text, self.advance().text, at=token.place)
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.text == "at" and following.text == "(":
            self.advance()
            self.advance()
            values = [self.expression()]
            while self.accept(","):
                values.append(self.expression())
            self.expect(")")
            return nodes.Coordinates(tuple(values), at=token.place)
        return self.expression()
