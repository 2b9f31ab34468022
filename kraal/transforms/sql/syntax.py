"""Parser for SQL expressions: a list like `price * amount AS total, upper(name) AS name`.

Only functions in `functions.FUNCTIONS` can be called; none of them reads files, calls Java or accesses tables. Queries
are not supported. As in Spark, function names are case-insensitive. Field names are case-sensitive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kraal.plugins.model.schema import Type
from kraal.transforms.sql.functions import FUNCTIONS, TYPES, list_function_names
from kraal.transforms.sql.tokens import Kind, SqlError, Token, tokenize

MAX_DEPTH: Final = 30
"""Maximum nesting depth of parentheses and calls."""
MAX_CHAIN: Final = 100
"""Maximum depth of an expression tree: the tree of `a + b + c` has depth 3."""

_COMPARISONS: Final = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")
_RESERVED_WORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IS", "NULL", "TRUE", "FALSE", "IN", "BETWEEN", "LIKE", "CASE", "WHEN", "THEN", "ELSE",
     "END", "AS", "CAST", "SELECT", "FROM", "WHERE", "EXISTS", "WITH", "UNION")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference to a field by its path of names."""

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
    """Parse a list of named expressions; return them by name, in order. Raises SqlError."""
    parser = _Parser(tokenize(text))
    nodes: dict[str, Node] = {}
    while True:
        node, name = parser.parse_item()
        if _measure_depth(node) > MAX_CHAIN:
            raise SqlError(f"{name} has more than {MAX_CHAIN} nested operations")
        if name in nodes:
            raise SqlError(f"duplicate name {name}")
        nodes[name] = node
        if not parser.take_symbol(","):
            break
    parser.expect_end()
    return nodes


def _measure_depth(node: Node) -> int:
    """Return the depth of an expression tree. Not recursive, because the depth can be in the thousands."""
    max_depth, stack = 0, [(node, 1)]
    while stack:
        current, depth = stack.pop()
        max_depth = max(max_depth, depth)
        match current:
            case Call(_, arguments):
                children: tuple[Node, ...] = arguments
            case Cast(value, _):
                children = (value,)
            case Case(branches, otherwise):
                children = (*(part for branch in branches for part in branch), otherwise)
            case _:
                children = ()
        stack += [(part, depth + 1) for part in children]
    return max_depth


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._index = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._next
        if token.kind is not Kind.END:
            self._index += 1
        return token

    def take_symbol(self, *symbols: str) -> str | None:
        """Consume and return the next token if it is one of these symbols; otherwise return None."""
        return self._take().text if self._next.is_symbol(*symbols) else None

    def _take_word(self, *words: str) -> str | None:
        return self._take().text.upper() if self._next.is_word(*words) else None

    def _expect(self, *, symbol: str = "", word: str = "") -> None:
        token = self.take_symbol(symbol) if symbol else self._take_word(word)
        if token is None:
            raise self._unexpected_error(repr(symbol or word))

    def _unexpected_error(self, expected: str) -> SqlError:
        token = self._next
        actual = "the end" if token.kind is Kind.END else repr(token.text)
        return SqlError(f"expected {expected} at character {token.at}, got {actual}")

    def expect_end(self) -> None:
        """Raise SqlError unless all tokens are consumed."""
        if self._next.kind is not Kind.END:
            raise self._unexpected_error("',' or the end")

    def parse_item(self) -> tuple[Node, str]:
        """Parse an expression and its name."""
        position = self._next.at
        node = self._parse_expression()
        if self._take_word("AS"):
            return node, self._parse_name()
        if isinstance(node, Reference):
            return node, node.path[-1]
        raise SqlError(f"the expression at character {position} requires a name: … AS name")

    def _parse_name(self, *, any_word: bool = False) -> str:
        token = self._next
        is_allowed = any_word or token.text.upper() not in _RESERVED_WORDS
        if token.kind is Kind.QUOTED or (token.kind is Kind.NAME and is_allowed):
            return self._take().text
        raise self._unexpected_error("a name")

    def _parse_expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise SqlError(f"the expression is nested more than {MAX_DEPTH} levels deep")
        node = self._parse_chain("OR", lambda: self._parse_chain("AND", self._parse_negation))
        self._depth -= 1
        return node

    def _parse_chain(self, word: str, parse_operand: Callable[[], Node]) -> Node:
        operands = [parse_operand()]
        while self._take_word(word):
            operands.append(parse_operand())
        return operands[0] if len(operands) == 1 else Call(word, tuple(operands))

    def _parse_negation(self) -> Node:
        count = 0
        while self._take_word("NOT"):
            count += 1
        node = self._parse_predicate()
        for _ in range(min(count, 2 - count % 2)):
            node = Call("NOT", (node,))
        return node

    def _parse_predicate(self) -> Node:
        operand = self._parse_sum()
        while True:
            if symbol := self.take_symbol(*_COMPARISONS):
                operand = Call({"==": "=", "!=": "<>"}.get(symbol, symbol), (operand, self._parse_sum()))
            elif self._take_word("IS"):
                is_negated = self._take_word("NOT") is not None
                self._expect(word="NULL")
                operand = Call("IS NULL", (operand,))
                operand = Call("NOT", (operand,)) if is_negated else operand
            elif self._next.is_word("NOT", "IN", "BETWEEN", "LIKE"):
                is_negated = self._take_word("NOT") is not None
                operand = self._parse_test(operand)
                operand = Call("NOT", (operand,)) if is_negated else operand
            else:
                return operand

    def _parse_test(self, left: Node) -> Node:
        if self._take_word("BETWEEN"):
            lower_bound = self._parse_sum()
            self._expect(word="AND")
            return Call("AND", (Call(">=", (left, lower_bound)), Call("<=", (left, self._parse_sum()))))
        if self._take_word("LIKE"):
            if self._next.kind is not Kind.TEXT:
                raise self._unexpected_error("a string as the pattern of LIKE")
            return Call("LIKE", (left, Literal(_check_like_pattern(self._take().text))))
        self._expect(word="IN")
        self._expect(symbol="(")
        comparisons = [Call("=", (left, self._parse_expression()))]
        while self.take_symbol(","):
            comparisons.append(Call("=", (left, self._parse_expression())))
        self._expect(symbol=")")
        return Call("OR", tuple(comparisons))

    def _parse_sum(self) -> Node:
        node = self._parse_product()
        while symbol := self.take_symbol("+", "-", "||"):
            node = Call("concat" if symbol == "||" else symbol, (node, self._parse_product()))
        return node

    def _parse_product(self) -> Node:
        node = self._parse_factor()
        while symbol := self.take_symbol("*", "/", "%"):
            node = Call(symbol, (node, self._parse_factor()))
        return node

    def _parse_factor(self) -> Node:
        if self.take_symbol("+"):
            return self._parse_signed_factor()
        if self.take_symbol("-"):
            node = self._parse_signed_factor(is_negative=True)
            if isinstance(node, Literal):
                return node
            return Call("NEGATIVE", (node,))
        return self._parse_primary()

    def _parse_signed_factor(self, *, is_negative: bool = False) -> Node:
        if self._next.is_symbol("+", "-"):
            raise self._unexpected_error("a value after a sign")
        if is_negative and self._next.kind is Kind.NUMBER:
            return Literal(_parse_number(self._take(), is_negative=True))
        return self._parse_primary()

    def _parse_primary(self) -> Node:
        token = self._next
        if token.kind is Kind.NUMBER:
            return Literal(_parse_number(self._take(), is_negative=False))
        if token.kind is Kind.TEXT:
            return Literal(self._take().text)
        if self.take_symbol("("):
            node = self._parse_expression()
            self._expect(symbol=")")
            return node
        if word := self._take_word("NULL", "TRUE", "FALSE"):
            return Literal({"TRUE": True, "FALSE": False}.get(word))
        if self._take_word("CASE"):
            return self._parse_case()
        next_token = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        if token.kind is Kind.NAME and next_token.is_symbol("("):
            return self._parse_call()
        return self._parse_reference()

    def _parse_reference(self) -> Node:
        path = [self._parse_name()]
        while self.take_symbol("."):
            path.append(self._parse_name(any_word=True))
        return Reference(tuple(path))

    def _parse_case(self) -> Node:
        subject = None if self._next.is_word("WHEN") else self._parse_expression()
        branches = []
        while self._take_word("WHEN"):
            condition = self._parse_expression()
            if subject is not None:
                condition = Call("=", (subject, condition))
            self._expect(word="THEN")
            branches.append((condition, self._parse_expression()))
        if not branches:
            raise self._unexpected_error("'WHEN'")
        otherwise = self._parse_expression() if self._take_word("ELSE") else Literal(None)
        self._expect(word="END")
        return Case(tuple(branches), otherwise)

    def _parse_call(self) -> Node:
        token = self._take()
        name = token.text.lower()
        if name == "cast":
            return self._parse_cast()
        function = FUNCTIONS.get(name)
        if function is None:
            raise SqlError(f"the function {token.text} is not allowed; allowed are {list_function_names()}")
        self._expect(symbol="(")
        arguments: list[Node] = []
        if not self._next.is_symbol(")"):
            arguments.append(self._parse_expression())
            while self.take_symbol(","):
                arguments.append(self._parse_expression())
        self._expect(symbol=")")
        if not function.accepts_count(len(arguments)):
            raise SqlError(f"the function {name} takes {function.argument_count}, got {len(arguments)}")
        return _rewrite(function.name, tuple(arguments))

    def _parse_cast(self) -> Node:
        self._expect(symbol="(")
        value = self._parse_expression()
        self._expect(word="AS")
        name = self._parse_name().upper()
        if name not in TYPES:
            raise SqlError(f"the type {name} is not allowed; allowed are {', '.join(TYPES)}")
        self._expect(symbol=")")
        return Cast(value, TYPES[name])


def _rewrite(name: str, arguments: tuple[Node, ...]) -> Node:
    """Rewrite a call in terms of other functions."""
    if name == "if":
        return Case(((arguments[0], arguments[1]),), arguments[2])
    if name == "nullif":
        return Case(((Call("=", arguments), Literal(None)),), arguments[0])
    return Call(name, arguments)


def _check_like_pattern(text: str) -> str:
    remaining_text = text.replace("\\\\", "")
    if "\\" in remaining_text.replace("\\%", "").replace("\\_", ""):
        raise SqlError(rf"invalid escape in the LIKE pattern {text!r}; only \%, \_ and \\ are allowed")
    return text


def _parse_number(token: Token, *, is_negative: bool) -> int | float:
    text = token.text
    if text[-1] in "dD" or not text.rstrip("lL").isdigit():
        number = float(text.rstrip("dD"))
        return -number if is_negative else number
    integer = int(text.rstrip("lL")) * (-1 if is_negative else 1)
    if not -(2**63) <= integer < 2**63:
        raise SqlError(f"the number {integer} is out of range for BIGINT")
    return integer
