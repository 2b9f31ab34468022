"""Which test quotes what: read from the tests' text, so that it takes no test to run.

A quote stands in a test's docstring, in lines that begin with `> `; an empty line ends it. The modes in which a
test runs are known by the fixture that it takes: `stage`, `stages` and `mode` are for both.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.kips.sentences import MODES, Sentence

FOLDER = Path(__file__).parent
FIXTURES = {
    "stage": MODES,
    "stages": MODES,
    "mode": MODES,
    "standalone": ("standalone",),
    "distributed": ("distributed",),
}
_KIP = re.compile(r"test_kip_(\d+)_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """What one test says that it proves."""

    kip: int
    test: str
    """The test's path and name, as pytest takes it."""
    modes: tuple[str, ...]
    text: str


@cache
def quotes() -> tuple[Quote, ...]:
    """Return all quotes of all tests here."""
    return tuple(quote for path in sorted(FOLDER.glob("test_kip_*.py")) for quote in _quotes_in(path))


def proofs(kip: int, sentence: Sentence) -> list[Quote]:
    """Return the quotes that are part of a sentence, by tests in its modes."""
    given = [quote for quote in quotes() if quote.kip == kip and set(quote.modes) & set(sentence.modes)]
    return [quote for quote in given if sentence.has(quote.text)]


def _quotes_in(path: Path) -> Iterator[Quote]:
    number = _KIP.match(path.name)
    assert number, f"{path.name} does not say which KIP it is about"
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            arguments = {argument.arg for argument in node.args.args}
            [fixture] = arguments & FIXTURES.keys() or {""}
            for text in quoted(ast.get_docstring(node) or ""):
                yield Quote(
                    kip=int(number[1]),
                    test=f"{path.relative_to(FOLDER.parent.parent)}::{node.name}",
                    modes=FIXTURES.get(fixture, ()),
                    text=text,
                )


def quoted(docstring: str) -> list[str]:
    """Return the quotes in a docstring."""
    found: list[list[str]] = [[]]
    for line in inspect.cleandoc(docstring).splitlines():
        if line.startswith("> "):
            found[-1].append(line.removeprefix("> "))
        else:
            found.append([])
    return [" ".join(lines) for lines in found if lines]
