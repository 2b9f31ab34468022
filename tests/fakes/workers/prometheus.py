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


def parse_scrape(text: str) -> Scraped:
    """Parse a scrape. Raises AssertionError if a server would reject it."""
    result = Scraped()
    assert text.endswith("\n"), "the last line must end with a newline"
    family = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            family, _, help_text = line[7:].partition(" ")
            assert family not in result.helps, f"family {family} is not contiguous"
            result.helps[family] = help_text
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            assert name == family
            assert kind in {"counter", "gauge"}
            result.types[name] = kind
        else:
            name, labels, value = _series(line)
            assert name == family, f"{name} within the family {family}"
            assert name in result.types
            assert (name, labels) not in result.values, f"duplicate series: {line}"
            result.values[name, labels] = value
    return result


def _series(line: str) -> tuple[str, Labels, float]:
    match = _NAME.match(line)
    assert match, line
    remaining_text = line[match.end() :]
    labels: Labels = frozenset()
    if remaining_text.startswith("{"):
        pairs = list(_labels(remaining_text))
        labels = frozenset(pairs)
        assert len(dict(pairs)) == len(pairs), f"duplicate label: {line}"
        remaining_text = remaining_text[_end(remaining_text) :]
    assert remaining_text.startswith(" "), line
    assert _VALUE.fullmatch(remaining_text[1:]), line
    return match[0], labels, float(remaining_text[1:])


def _labels(text: str) -> Iterator[tuple[str, str]]:
    position = 1
    while text[position] != "}":
        match = _LABEL.match(text, position)
        assert match, text
        yield match[1], re.sub(r'\\[\\"n]', lambda escape: _ESCAPES[escape[0]], match[2])
        position = match.end()


def _end(text: str) -> int:
    position = 1
    while text[position] != "}":
        match = _LABEL.match(text, position)
        assert match, text
        position = match.end()
    return position + 1
