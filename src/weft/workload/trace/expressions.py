"""Parser of expressions and peers, by precedence climbing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

from weft.workload.trace import nodes
from weft.workload.trace.errors import TraceError
from weft.workload.trace.keywords import FUNCTIONS, MAX_DEPTH, OPTIONS
from weft.workload.trace.lexer import Token
from weft.workload.trace.quantities import quantity

T = TypeVar("T")

COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
#: Precedence of operators of two values; `not` has precedence 3 and the sign 7.
LEVELS = {
    "or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4), "+": 5, "-": 5, "*": 6, "/": 6, "//": 6,
    "%": 6, "**": 8,
}  # fmt: skip
NOT, SIGN = 3, 7
#: Largest number of operators in one expression.
MAX_OPERATORS = 100


class ExpressionParser(ABC):
    """Parser of expressions with a current position in a list of tokens."""

    def __init__(self, tokens: Sequence[Token]):
        self._tokens = list(tokens)
        self._at = 0
        self._depth = 0
        self._operators = 0
        self.token = self._tokens[0]

    def advance(self) -> Token:
        """Return the current token and move to the next."""
        token = self.token
        if self._at + 1 < len(self._tokens):
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def forget_comment(self) -> None:
        """Remove the comment of the end token, which belongs only to the last statement."""
        end = self.token
        self.token = Token(end.kind, end.text, end.line, end.column, "", end.end)

    def word(self) -> str:
        """Return the current token in capitals if it is a name, else an empty text."""
        return self.token.text.upper() if self.token.kind == "name" else ""

    def accept(self, operator: str) -> bool:
        """Consume an operator if it is the current token; return whether it was."""
        matches = self.token.kind == "operator" and self.token.text == operator
        if matches:
            self.advance()
        return matches

    def accept_word(self, word: str) -> bool:
        """Consume a word if it is the current token; return whether it was."""
        matches = self.word() == word
        if matches:
            self.advance()
        return matches

    def expect(self, operator: str) -> None:
        """Consume an operator, which must be the current token."""
        if not self.accept(operator):
            self.fail(repr(operator))

    def expect_word(self, word: str) -> None:
        """Consume a word, which must be the current token."""
        if not self.accept_word(word):
            self.fail(word)

    @abstractmethod
    def fail(self, expected: str) -> NoReturn:
        """Refuse the current token."""

    def scope_name(self) -> str:
        """Read the name of a scope; return ALL in capitals."""
        if self.token.kind != "name" or (self.word() in OPTIONS and self.word() != "ALL"):
            self.fail("the name of a scope, such as ALL")
        text = self.advance().text
        return "ALL" if text.upper() == "ALL" else text

    def many(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read one item or several, separated by commas."""
        items = [read()]
        while self.accept(","):
            items.append(read())
        return tuple(items)

    # -- expressions -------------------------------------------------------------------------------

    def expression(self, level: int = 1) -> nodes.Expression:
        """Read an expression of operators whose precedence is at least `level`."""
        if self._depth == 0:
            self._operators = 0
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TraceError(
                f"an expression is nested more than {MAX_DEPTH} levels deep", self.token.place
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
                    "a comparison has two values; join comparisons with 'and'",
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
                raise TraceError("this 'not' must be in parentheses", token.place)
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
                    "a + before a value is not allowed; +x, the neighbour along axis x, is allowed "
                    "only after TO and FROM",
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
        arguments = () if self.token.text == ")" else self.many(self.expression)
        self.expect(")")
        if token.text == "at":
            raise TraceError("at(…) is a peer: it must be alone after TO or FROM", token.place)
        arity = FUNCTIONS.get(token.text)
        wrong = len(arguments) < 2 if arity == -1 else arity not in (None, len(arguments))
        if wrong:
            count = "two or more arguments" if arity == -1 else f"{arity} argument(s)"
            raise TraceError(f"{token.text} takes {count}, not {len(arguments)}", token.place)
        return nodes.Call(token.text, arguments, at=token.place)

    def peer(self) -> nodes.Peer:
        """Read the peer of a message."""
        token = self.token
        if self.accept_word("NULL"):
            return nodes.NullPeer(at=token.place)
        if token.text in ("+", "-") and token.kind == "operator":
            self.advance()
            if self.token.kind != "name":
                self.fail("an axis, as in +x; a computed rank must not begin with a sign")
            return nodes.Neighbour(token.text, self.advance().text, at=token.place)
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.text == "at" and following.text == "(":
            self.advance()
            self.advance()
            values = self.many(self.expression)
            self.expect(")")
            return nodes.Coordinates(values, at=token.place)
        return self.expression()
