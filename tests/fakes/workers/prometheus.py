"""A strict parser of Prometheus' text format, which also requires contiguous families with a TYPE."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|(?=}))')
_VALUE = re.compile(r"NaN|[+-]Inf|-?\d+(\.\d+)?(e[+-]?\d+)?")
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}

Labels = frozenset[tuple[str, str]]


@dataclass
class Scraped:
    """The parsed families of a scrape."""

    types: dict[str, str] = field(default_factory=dict)
    helps: dict[str, str] = field(default_factory=dict)
    values: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def value(self, name: str, /, **labels: str) -> float:
        """Return the value of the series with exactly these labels. Raises KeyError."""
        return self.values[name, frozenset(labels.items())]

    def all_of(self, name: str) -> dict[Labels, float]:
        """Return all series of a name."""
        return {labels: value for (series_name, labels), value in self.values.items() if series_name == name}

    def label_of(self, name: str, label: str, **labels: str) -> set[str]:
        """Return the values of a label in all series of a name that have these labels."""
        pairs = set(labels.items())
        return {
            dict(series)[label] for series in self.all_of(name) if pairs <= series and label in dict(series)
        }


def scraped(text: str) -> Scraped:
    """Parse a scrape. Raises AssertionError if a server would reject it."""
    result = Scraped()
    assert text.endswith("\n"), "the last line must end with a newline"
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current, _, help_text = line[7:].partition(" ")
            assert current not in result.helps, f"family {current} is not contiguous"
            result.helps[current] = help_text
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            assert name == current
            assert kind in {"counter", "gauge"}
            result.types[name] = kind
        else:
            name, labels, value = _series(line)
            assert name == current, f"{name} within the family {current}"
            assert name in result.types
            assert (name, labels) not in result.values, f"duplicate series: {line}"
            result.values[name, labels] = value
    return result


def _series(line: str) -> tuple[str, Labels, float]:
    match = _NAME.match(line)
    assert match, line
    rest = line[match.end() :]
    labels: Labels = frozenset()
    if rest.startswith("{"):
        pairs = list(_labels(rest))
        labels = frozenset(pairs)
        assert len(dict(pairs)) == len(pairs), f"duplicate label: {line}"
        rest = rest[_end(rest) :]
    assert rest.startswith(" "), line
    assert _VALUE.fullmatch(rest[1:]), line
    return match[0], labels, float(rest[1:])


def _labels(text: str) -> Iterator[tuple[str, str]]:
    at = 1
    while text[at] != "}":
        match = _LABEL.match(text, at)
        assert match, text
        yield match[1], re.sub(r'\\[\\"n]', lambda escape: _ESCAPES[escape[0]], match[2])
        at = match.end()


def _end(text: str) -> int:
    at = 1
    while text[at] != "}":
        match = _LABEL.match(text, at)
        assert match, text
        at = match.end()
    return at + 1
