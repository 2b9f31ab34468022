"""Parser for SQL expressions: a list like `price * amount AS total, upper(name) AS name`.

Only functions in `functions.FUNCTIONS` can be called, none of which reads files, calls Java or accesses tables; the
parser supports no queries. As in Spark, function names ignore case and field names do not (`caseSensitive`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kraal.plugins.model.schema import Type
from kraal.transforms.sql.functions import FUNCTIONS, TYPES, function_names
from kraal.transforms.sql.tokens import Kind, SqlError, Token, tokens

MAX_DEPTH: Final = 30
"""Maximum nesting of brackets and calls."""
MAX_CHAIN: Final = 100
"""Maximum number of nested operations: `a + b + c` has two."""

_COMPARISONS: Final = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_RESERVED: Final = frozenset(
    ("AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "IN", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE",
     "END", "AS", "CAST", "SELECT", "FROM", "WHERE", "EXISTS", "WITH", "UNION")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Reference:
    """A field by its path of names."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator (`+`, `AND`, `IS NULL` …) with its arguments."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast of a value to a type."""

    value: Node
    type: Type


@dataclass(frozen=True, slots=True)
class Case:
    """A CASE expression: the value of the first true condition."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


Node = Literal | Reference | Call | Cast | Case


def parse(text: str) -> dict[str, Node]:
    """Return the expression of each name, in order. Raises SqlError."""
    parser = _Parser(tokens(text))
    nodes: dict[str, Node] = {}
    while True:
        node, name = parser.item()
        if _depth(node) > MAX_CHAIN:
            raise SqlError(f"{name} has more than {MAX_CHAIN} steps within each other")
        if name in nodes:
            raise SqlError(f"{name} is computed twice")
        nodes[name] = node
        if not parser.take_sign(","):
            break
    parser.end()
    return nodes


def _depth(node: Node) -> int:
    """Return the depth of nested operations, without recursion because there can be thousands."""
    most, waiting = 0, [(node, 1)]
    while waiting:
        each, depth = waiting.pop()
        most = max(most, depth)
        match each:
            case Call(_, arguments):
                inner: tuple[Node, ...] = arguments
            case Cast(value, _):
                inner = (value,)
            case Case(branches, otherwise):
                inner = (*(part for branch in branches for part in branch), otherwise)
            case _:
                inner = ()
        waiting += [(part, depth + 1) for part in inner]
    return most


class _Parser:
    def __init__(self, listed_tokens: list[Token]) -> None:
        self._tokens = listed_tokens
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def take_sign(self, *signs: str) -> str | None:
        """Consume and return the next token if it is one of these signs."""
        return self._take().text if self._next.is_sign(*signs) else None

    def _take_word(self, *words: str) -> str | None:
        return self._take().text.upper() if self._next.is_word(*words) else None

    def _expect(self, *, sign: str = "", word: str = "") -> None:
        token = self.take_sign(sign) if sign else self._take_word(word)
        if token is None:
            raise self._unexpected_error(repr(sign or word))

    def _unexpected_error(self, expected: str) -> SqlError:
        token = self._next
        actual = "the end" if token.kind is Kind.END else repr(token.text)
        return SqlError(f"expected {expected} at character {token.at}, got {actual}")

    def end(self) -> None:
        """Require the end of the text."""
        if self._next.kind is not Kind.END:
            raise self._unexpected_error("',' or the end")

    def item(self) -> tuple[Node, str]:
        """Read an expression and its name."""
        start = self._next.at
        node = self._expression()
        if self._take_word("AS"):
            return node, self._name()
        if isinstance(node, Reference):
            return node, node.path[-1]
        raise SqlError(f"the expression at character {start} needs a name: … AS name")

    def _name(self, *, any_word: bool = False) -> str:
        token = self._next
        free = any_word or token.text.upper() not in _RESERVED
        if token.kind is Kind.QUOTED or (token.kind is Kind.NAME and free):
            return self._take().text
        raise self._unexpected_error("a name")

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SqlError(f"the expression is nested more than {MAX_DEPTH} deep")
        node = self._chain("OR", lambda: self._chain("AND", self._negation))
        self._depth -= 1
        return node

    def _chain(self, word: str, operand: Callable[[], Node]) -> Node:
        operands = [operand()]
        while self._take_word(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else Call(word, tuple(operands))

    def _negation(self) -> Node:
        count = 0
        while self._take_word("NOT"):
            count += 1
        node = self._predicate()
        for _ in range(min(count, 2 - count % 2)):
            node = Call("NOT", (node,))
        return node

    def _predicate(self) -> Node:
        operand = self._sum()
        while True:
            if sign := self.take_sign(*_COMPARISONS):
                operand = Call({"==": "=", "!=": "<>"}.get(sign, sign), (operand, self._sum()))
            elif self._take_word("IS"):
                negated = self._take_word("NOT") is not None
                self._expect(word="NULL")
                operand = Call("IS NULL", (operand,))
                operand = Call("NOT", (operand,)) if negated else operand
            elif self._next.is_word("NOT", "IN", "BETWEEN", "LIKE"):
                negated = self._take_word("NOT") is not None
                operand = self._test(operand)
                operand = Call("NOT", (operand,)) if negated else operand
            else:
                return operand

    def _test(self, left: Node) -> Node:
        if self._take_word("BETWEEN"):
            low = self._sum()
            self._expect(word="AND")
            return Call("AND", (Call(">=", (left, low)), Call("<=", (left, self._sum()))))
        if self._take_word("LIKE"):
            if self._next.kind is not Kind.TEXT:
                raise self._unexpected_error("a text as LIKE's pattern")
            return Call("LIKE", (left, Literal(_pattern(self._take().text))))
        self._expect(word="IN")
        self._expect(sign="(")
        comparisons = [Call("=", (left, self._expression()))]
        while self.take_sign(","):
            comparisons.append(Call("=", (left, self._expression())))
        self._expect(sign=")")
        return Call("OR", tuple(comparisons))

    def _sum(self) -> Node:
        node = self._product()
        while sign := self.take_sign("+", "-", "||"):
            node = Call("concat" if sign == "||" else sign, (node, self._product()))
        return node

    def _product(self) -> Node:
        node = self._factor()
        while sign := self.take_sign("*", "/", "%"):
            node = Call(sign, (node, self._factor()))
        return node

    def _factor(self) -> Node:
        if self.take_sign("+"):
            return self._factor_of_sign()
        if self.take_sign("-"):
            node = self._factor_of_sign(negative=True)
            if isinstance(node, Literal):
                return node
            return Call("NEGATIVE", (node,))
        return self._primary()

    def _factor_of_sign(self, *, negative: bool = False) -> Node:
        if self._next.is_sign("+", "-"):
            raise self._unexpected_error("a value after a sign")
        if negative and self._next.kind is Kind.NUMBER:
            return Literal(_number(self._take(), negative=True))
        return self._primary()

    def _primary(self) -> Node:
        token = self._next
        if token.kind is Kind.NUMBER:
            return Literal(_number(self._take(), negative=False))
        if token.kind is Kind.TEXT:
            return Literal(self._take().text)
        if self.take_sign("("):
            node = self._expression()
            self._expect(sign=")")
            return node
        if word := self._take_word("NULL", "TRUE", "FALSE"):
            return Literal({"TRUE": True, "FALSE": False}.get(word))
        if self._take_word("CASE"):
            return self._case()
        following = self._tokens[min(self._at + 1, len(self._tokens) - 1)]
        if token.kind is Kind.NAME and following.is_sign("("):
            return self._call()
        return self._reference()

    def _reference(self) -> Node:
        path = [self._name()]
        while self.take_sign("."):
            path.append(self._name(any_word=True))
        return Reference(tuple(path))

    def _case(self) -> Node:
        subject = None if self._next.is_word("WHEN") else self._expression()
        branches = []
        while self._take_word("WHEN"):
            condition = self._expression()
            if subject is not None:
                condition = Call("=", (subject, condition))
            self._expect(word="THEN")
            branches.append((condition, self._expression()))
        if not branches:
            raise self._unexpected_error("'WHEN'")
        otherwise = self._expression() if self._take_word("ELSE") else Literal(None)
        self._expect(word="END")
        return Case(tuple(branches), otherwise)

    def _call(self) -> Node:
        token = self._take()
        name = token.text.lower()
        if name == "cast":
            return self._cast()
        function = FUNCTIONS.get(name)
        if function is None:
            raise SqlError(f"the function {token.text} is not allowed; allowed are {function_names()}")
        self._expect(sign="(")
        arguments: list[Node] = []
        if not self._next.is_sign(")"):
            arguments.append(self._expression())
            while self.take_sign(","):
                arguments.append(self._expression())
        self._expect(sign=")")
        if not function.takes(len(arguments)):
            raise SqlError(f"the function {name} takes {function.argument_count}, got {len(arguments)}")
        return _rewrite(function.name, tuple(arguments))

    def _cast(self) -> Node:
        self._expect(sign="(")
        value = self._expression()
        self._expect(word="AS")
        name = self._name().upper()
        if name not in TYPES:
            raise SqlError(f"the type {name} is not allowed; allowed are {', '.join(TYPES)}")
        self._expect(sign=")")
        return Cast(value, TYPES[name])


def _rewrite(name: str, arguments: tuple[Node, ...]) -> Node:
    """Rewrite a call in terms of other functions."""
    if name == "if":
        return Case(((arguments[0], arguments[1]),), arguments[2])
    if name == "nullif":
        return Case(((Call("=", arguments), Literal(None)),), arguments[0])
    return Call(name, arguments)


def _pattern(text: str) -> str:
    unescaped = text.replace("\\\\", "")
    if "\\" in unescaped.replace("\\%", "").replace("\\_", ""):
        raise SqlError(rf"in LIKE's pattern {text!r} only \%, \_ and \\ are escapes")
    return text


def _number(token: Token, *, negative: bool) -> int | float:
    text = token.text
    if text[-1] in "dD" or not text.rstrip("lL").isdigit():
        number = float(text.rstrip("dD"))
        return -number if negative else number
    whole = int(text.rstrip("lL")) * (-1 if negative else 1)
    if not -(2**63) <= whole < 2**63:
        raise SqlError(f"the number {whole} is beyond BIGINT")
    return whole
