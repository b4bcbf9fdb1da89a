"""Recursive-descent parser of trace programs, one statement per line.

It is written by hand for its error messages: they give the column, what was expected and the word
that was probably meant. A generated parser could give only names of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from weft.core.registry import did_you_mean
from weft.workload.trace import nodes
from weft.workload.trace.errors import TraceError
from weft.workload.trace.expressions import ExpressionParser, T
from weft.workload.trace.keywords import COLLECTIVES, DEFINITIONS, HEADS, MAX_DEPTH, reserved
from weft.workload.trace.lexer import Token, tokens


def parse(text: str, file: str = "trace") -> nodes.TraceProgram:
    """Parse a program."""
    try:
        return _Parser(tokens(text)).program()
    except TraceError as error:
        raise error.in_file(file, text) from None


def parse_value(text: str) -> nodes.Expression:
    """Parse an expression."""
    parser = _Parser(tokens(text))
    value = parser.expression()
    if parser.token.kind != "end":
        parser.fail("the end of the value")
    return value


class _Parser(ExpressionParser):
    """Parser in one pass over the tokens; each method parses the element in its name."""

    def __init__(self, token_list: Sequence[Token]):
        super().__init__(token_list)
        self._blocks = 0
        self._heads: dict[str, Callable[[Token], nodes.Statement]] = {
            "NAME": lambda head: nodes.Title(self._string("name"), at=head.place),
            "RANKS": lambda head: nodes.RankCount(self.expression(), at=head.place),
            "SEED": lambda head: nodes.Seed(self.expression(), at=head.place),
            "PARAM": lambda head: nodes.Param(*self._assignment(), at=head.place),
            "LET": lambda head: nodes.Let(*self._assignment(), at=head.place),
            "COMMUNICATOR": self._communicator,
            "SCOPE": self._scope,
            "PHASE": lambda head: nodes.SetPhase(self._string("name of the phase"), at=head.place),
            "CALC": self._calc,
            "SEND": self._message,
            "ISEND": self._message,
            "RECV": self._message,
            "IRECV": self._message,
            "PUT": self._message,
            "SENDRECV": self._sendrecv,
            "WAIT": self._wait,
            "WAITALL": lambda head: nodes.Wait(at=head.place),
            "RODREQUEST": self._routing_key,
            "RODDONE": self._routing_key,
            "FOR": self._for,
            "REPEAT": self._repeat,
            "IF": self._if,
        }

    # -- lines and blocks --------------------------------------------------------------------------

    def program(self) -> nodes.TraceProgram:
        """Parse all statements up to the end of the file."""
        body = self._statements(())
        if self.token.kind != "end":
            raise TraceError(f"{self.token.text.upper()} is outside a block", self.token.place)
        return nodes.TraceProgram(body)

    def _statements(self, ends: tuple[str, ...]) -> tuple[nodes.Statement, ...]:
        """Parse statements up to END, ELIF or ELSE; drop empty lines at both ends."""
        result: list[nodes.Statement] = []
        while self.token.kind != "end":
            if self.token.kind == "newline":
                token = self.advance()
                empty = not token.comment
                if not (empty and (not result or result[-1] == nodes.Blank())):
                    result.append(nodes.Blank(at=token.place, comment=token.comment))
                continue
            if self.word() in ("END", "ELIF", "ELSE"):
                break
            result.append(self._statement())
        if self.token.kind == "end" and self.token.comment:
            result.append(nodes.Blank(at=self.token.place, comment=self.token.comment))
        while result and result[-1] == nodes.Blank():
            result.pop()
        return tuple(result)

    def _statement(self) -> nodes.Statement:
        head = self.token
        if head.kind == "number" or head.text == "(":
            return self._on_ranks()
        if head.kind != "name":
            self.fail("a statement")
        word = head.text.upper().removeprefix("MPI_")
        read = self._heads.get(word)
        if word in COLLECTIVES:
            read = self._collective
        if read is None:
            close = did_you_mean(word, [*HEADS, *COLLECTIVES])
            raise TraceError(f"unknown statement {head.text!r}{close}", head.place)
        self.advance()
        statement = read(head)
        if isinstance(statement, nodes.Block):
            return statement
        return self._ended(statement)

    def _ended(self, statement: nodes.Statement) -> nodes.Statement:
        """Read the end of the line; return the statement with its comment."""
        comment = self._line_end()
        if comment:
            object.__setattr__(statement, "comment", comment)
        return statement

    def _line_end(self) -> str:
        if self.token.kind not in ("newline", "end"):
            self.fail("the end of the line")
        comment = self.token.comment
        if self.token.kind == "newline":
            self.advance()
        else:
            self.forget_comment()
        return comment

    def _body(self, head: Token) -> tuple[nodes.Statement, ...]:
        """Parse a block up to END, ELIF or ELSE, which is not consumed."""
        self._deepen(head)
        body = self._statements(("END", "ELIF", "ELSE"))
        self._blocks -= 1
        if self.token.kind == "end":
            raise TraceError(f"the block that begins with {head.text!r} has no END", head.place)
        return body

    def _deepen(self, head: Token) -> None:
        self._blocks += 1
        if self._blocks > MAX_DEPTH:
            raise TraceError(f"blocks are nested more than {MAX_DEPTH} levels deep", head.place)

    def _rest(self, head: Token) -> dict[str, Any]:
        """Parse a block from the end of its first line on; return these fields of its node."""
        comment = self._line_end()
        body = self._body(head)
        return {
            "body": body, "at": head.place, "comment": comment, "end_comment": self._end(head),
        }  # fmt: skip

    def _end(self, head: Token) -> str:
        """Consume the END of a block; return the comment after it."""
        if self.word() != "END":
            raise TraceError(
                f"{self.token.text.upper()} is allowed only in an IF, but this block began with "
                f"{head.text!r} in line {head.line}",
                self.token.place,
            )
        self.advance()
        return self._line_end()

    # -- declarations ------------------------------------------------------------------------------

    def _assignment(self) -> tuple[str, nodes.Expression]:
        name = self.new_name("variable")
        self.expect("=")
        return name, self.expression()

    def _communicator(self, head: Token) -> nodes.Statement:
        number = self.expression()
        text = self._string("name") if self.token.kind == "string" else ""
        return nodes.Communicator(number, text, at=head.place)

    def _string(self, what: str) -> str:
        if self.token.kind != "string":
            self.fail(f'a {what} between "')
        return self.advance().text[1:-1]

    def _scope(self, head: Token) -> nodes.Statement:
        if self.word() == "ALL":
            name = self.scope_name()
            if self.token.text == "=":
                raise TraceError("ALL always means all ranks; use another name", head.place)
            return nodes.EnterScope(name, at=head.place)
        name = self.new_name("scope")
        if not self.accept("="):
            return nodes.EnterScope(name, at=head.place)
        return nodes.DefineScope(name, self._definition(), at=head.place)

    def _definition(self) -> nodes.Definition:
        token, kind = self.token, self.word()
        if kind not in DEFINITIONS:
            close = did_you_mean(token.text.upper(), DEFINITIONS) if token.text else ""
            self.fail(f"one of {', '.join(DEFINITIONS)}{close}")
        self.advance()
        parent = self.scope_name()
        if kind == "CART":
            return self._cart(token, parent)
        if kind == "SUB":
            axes = self._bracketed(lambda: self.new_name("axis"))
            return nodes.Sub(parent, axes, at=token.place)
        if kind == "SPLIT":
            self.expect_word("BY")
            color = self.expression()
            key = self.expression() if self.accept_word("KEY") else None
            return nodes.Split(parent, color, key, at=token.place)
        if kind == "WHERE":
            return nodes.Where(parent, self.expression(), at=token.place)
        if kind == "LIST":
            self.expect("[")
            ranks = self.many(self._range)
            self.expect("]")
            return nodes.Listed(parent, ranks, at=token.place)
        return nodes.Dup(parent, at=token.place)

    def _cart(self, token: Token, parent: str) -> nodes.Cart:
        axes: list[str] = []
        dims: list[nodes.Expression | None] = []

        def axis() -> None:
            place = self.token.place
            name = self.new_name("axis")
            if name in axes:
                raise TraceError(f"axis {name} is given twice", place)
            axes.append(name)
            self.expect(":")
            dims.append(None if self.accept_word("AUTO") else self.expression())

        self._bracketed(axis)
        periodic: tuple[str, ...] | None = ()
        if self.accept_word("PERIODIC"):
            periodic = None
            if self.token.text == "(":
                periodic = self._bracketed(lambda: self._axis_of(axes))
        return nodes.Cart(parent, tuple(axes), tuple(dims), periodic, at=token.place)

    def _axis_of(self, axes: list[str]) -> str:
        if self.token.kind != "name" or self.token.text not in axes:
            self.fail(f"one of the axes {', '.join(axes)}")
        return self.advance().text

    def _bracketed(self, read: Callable[[], T]) -> tuple[T, ...]:
        self.expect("(")
        items = self.many(read)
        self.expect(")")
        return items

    def _range(self) -> nodes.Range:
        place = self.token.place
        first = self.expression()
        if not self.accept(".."):
            return nodes.Range(first, at=place)
        last = self.expression()
        step = self.expression() if self.accept_word("BY") else None
        return nodes.Range(first, last, step, at=place)

    # -- operations --------------------------------------------------------------------------------

    def _options(self, head: Token, readers: dict[str, Callable[[], object]]) -> dict[str, Any]:
        """Read the options of a statement, in any order and each at most once."""
        options: dict[str, Any] = {}
        while self.token.kind == "name":
            word = self.word()
            if word not in readers:
                break
            if word in options:
                raise TraceError(f"{word} is given twice", self.token.place)
            self.advance()
            options[word] = readers[word]()
        if self.token.kind not in ("newline", "end"):
            left = [word for word in readers if word not in options]
            close = did_you_mean(self.token.text.upper(), left) if self.token.kind == "name" else ""
            self.fail(" or ".join([", ".join(left), "the end of the line"]).lstrip(" or") + close)
        if "ON" in options and "COMM" in options:
            raise TraceError("only one of ON and COMM is allowed", head.place)
        return options

    def _places(self) -> dict[str, Callable[[], object]]:
        return {
            "TAG": self.expression,
            "ON": lambda: nodes.On(at=self.token.place, scope=self.scope_name()),
            "COMM": lambda: nodes.On(at=self.token.place, number=self.expression()),
        }

    def _calc(self, head: Token) -> nodes.Statement:
        mean = self.expression()
        options = self._options(
            head, {"STD": self.expression, "CPU": self.expression, "AFTER": self._after}
        )
        return nodes.Calc(
            mean, options.get("STD"), options.get("CPU"), after=options.get("AFTER"), at=head.place
        )

    def _message(self, head: Token) -> nodes.Statement:
        verb = head.text.upper().removeprefix("MPI_")
        size = self.expression()
        self.expect_word("FROM" if verb in ("RECV", "IRECV") else "TO")
        peer = self.peer()
        readers = {**self._places(), "AFTER": self._after}
        if verb in ("ISEND", "IRECV", "PUT"):
            readers["AS"] = lambda: self.new_name("request")
        if verb == "PUT":
            readers["RELEASE"] = self.expression
            del readers["ON"], readers["COMM"]
        options = self._options(head, readers)
        return nodes.Message(
            verb, size, peer, options.get("TAG"), options.get("ON", options.get("COMM")),
            options.get("RELEASE"), options.get("AS", ""), after=options.get("AFTER"),
            at=head.place,
        )  # fmt: skip

    def _sendrecv(self, head: Token) -> nodes.Statement:
        size = self.expression()
        self.expect_word("TO")
        to = self.peer()
        recv_size = self.expression() if self.accept(",") else None
        self.expect_word("FROM")
        source = self.peer()
        options = self._options(head, self._places())
        return nodes.SendRecv(
            size, to, source, recv_size, options.get("TAG"), options.get("ON", options.get("COMM")),
            at=head.place,
        )  # fmt: skip

    def _wait(self, head: Token) -> nodes.Statement:
        if self.token.kind in ("newline", "end"):
            self.fail("names of requests, or WAITALL for all of them")
        return nodes.Wait(self.many(lambda: self.new_name("request")), at=head.place)

    def _routing_key(self, head: Token) -> nodes.Statement:
        self.expect_word("KEY")
        key = self.expression()
        options = self._options(head, {**self._places(), "AFTER": self._after})
        return nodes.KeyOperation(
            head.text.upper().removeprefix("MPI_"), key, options.get("TAG"),
            options.get("ON", options.get("COMM")), after=options.get("AFTER"), at=head.place,
        )  # fmt: skip

    def _collective(self, head: Token) -> nodes.Statement:
        name = head.text.upper().removeprefix("MPI_")
        sized, rooted = COLLECTIVES[name]
        scope = ""
        if not sized and self.token.kind == "name" and self.word() not in ("ON", "USING"):
            scope = self.scope_name()
        size = self.expression() if sized else None
        readers: dict[str, Callable[[], object]] = {
            "USING": self._algorithm,
        }
        if not scope:
            readers["ON"] = self.scope_name
        if rooted:
            readers["ROOT"] = self.expression
        options = self._options(head, readers)
        return nodes.CollectiveCall(
            name, size, options.get("ROOT"), scope or options.get("ON", ""),
            options.get("USING", ""), at=head.place,
        )  # fmt: skip

    def _algorithm(self) -> str:
        """Read a name such as ``recursive-doubling``, without spaces."""
        if self.token.kind != "name":
            self.fail("the name of an algorithm")
        token = self.advance()
        text = token.text
        while self.token.kind in ("name", "number", "operator") and (
            self.token.column == token.column + len(token.text) and self.token.line == token.line
        ):
            if self.token.kind == "operator" and self.token.text != "-":
                break
            token = self.advance()
            text += token.text
        return text

    def _after(self) -> tuple[nodes.Dependency, ...]:
        return () if self.accept_word("NOTHING") else self.many(self._dependency)

    def _dependency(self) -> nodes.Dependency:
        place = self.token.place
        sign = -1 if self.accept("-") else 1
        text = self.token.text
        if self.token.kind != "number" or not text.isdigit() or len(text) > 18:
            self.fail("a number of operations back, such as 1")
        back = sign * int(self.advance().text)
        return nodes.Dependency(back, self.accept_word("START"), at=place)

    # -- blocks ------------------------------------------------------------------------------------

    def _for(self, head: Token) -> nodes.Statement:
        counter = self.new_name("counter")
        self.expect("=")
        range_ = self._range()
        if range_.last is None:
            self.fail("'..' and the last value, as in FOR i = 0..9")
        return nodes.For(counter, range_, **self._rest(head))

    def _repeat(self, head: Token) -> nodes.Statement:
        return nodes.Repeat(self.expression(), **self._rest(head))

    def _if(self, head: Token) -> nodes.Statement:
        branches = []
        condition: nodes.Expression | None = self.expression()
        at = head.place
        while True:
            comment = self._line_end()
            body = self._body(head)
            branches.append(nodes.Branch(condition, body, at=at, comment=comment))
            at = self.token.place
            if self.word() == "END":
                return nodes.If(tuple(branches), at=head.place, end_comment=self._end(head))
            if condition is None:
                raise TraceError(
                    f"{self.token.text.upper()} comes after the ELSE of this IF", self.token.place
                )
            otherwise = self.word() == "ELSE"
            self.advance()
            last = otherwise and not self.accept_word("IF")
            condition = None if last else self.expression()

    def _on_ranks(self) -> nodes.Statement:
        head = self.token
        ranks = self.many(self._range)
        self.expect(":")
        if self.token.kind not in ("newline", "end"):
            if self.token.kind == "number" or self.token.text == "(":
                self.fail("a statement")
            self._deepen(head)
            statement = self._statement()
            self._blocks -= 1
            return nodes.OnRanks(ranks, (statement,), at=head.place)
        return nodes.OnRanks(ranks, single=False, **self._rest(head))

    # -- names -------------------------------------------------------------------------------------

    def new_name(self, what: str) -> str:
        """Read a name that is not a word of the language."""
        token = self.token
        if token.kind != "name":
            self.fail(f"the name of a {what}".replace("a axis", "an axis"))
        if reserved(token.text):
            raise TraceError(
                f"{token.text!r} is a word of the language and cannot name a {what}", token.place
            )
        return self.advance().text

    def fail(self, expected: str) -> NoReturn:
        """Refuse the current token."""
        raise TraceError(f"expected {expected}, found {self.token}", self.token.place)
