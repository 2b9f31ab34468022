"""The names of the tables of a connector: one name, or a template with the topic or a field's value of each record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kraal.config.java_regex import compile_pattern
from kraal.config.patterns import Pattern

TOPIC: Final = "topic"
ROUTE: Final = "route"
_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_ROUTE_VALUE: Final = re.compile(r"(?![.])[\w.-]{1,200}(?<![.])")
"""The values that may become part of a name: they cannot select another directory or namespace by accident."""


@dataclass(frozen=True, slots=True)
class TableTemplate:
    """The names of a connector's tables. Raises ValueError if the parts contradict each other."""

    text: str
    """The name, with placeholders: `${topic}`, `${1}` for a group of `topic_regex`, `${route}` for a field's value."""
    topic_regex: Pattern | None = None
    route_field: str | None = None

    @staticmethod
    def parse(text: str, topic_regex: str | None, route_field: str | None) -> TableTemplate:
        """Return the template of a config. Raises ValueError."""
        regex = compile_pattern(topic_regex) if topic_regex else None
        template = TableTemplate(text, regex, route_field or None)
        groups = 0 if regex is None else regex.engine.groups
        for name in template.placeholders:
            if name.isdecimal() and 0 < int(name) <= groups:
                continue
            if name.isdecimal():
                raise ValueError(f"${{{name}}} requires a table.topic.regex with at least {name} groups")
            if name == ROUTE and not template.route_field:
                raise ValueError("${route} requires table.route.field")
            if name not in {TOPIC, ROUTE}:
                raise ValueError(
                    f"unknown placeholder ${{{name}}}; valid ones are ${{topic}}, ${{route}}, ${{1}}"
                )
        if template.route_field and not template.has_routes:
            raise ValueError("table.route.field requires ${route} in table")
        return template

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the placeholders."""
        return frozenset(_PLACEHOLDER.findall(self.text))

    @property
    def has_routes(self) -> bool:
        """Whether the records of a topic may belong to several tables."""
        return ROUTE in self.placeholders

    @property
    def is_constant(self) -> bool:
        """Whether there is only one table, whatever the topics are."""
        return not self.placeholders and self.topic_regex is None

    def get_name(self, topic: str, route: str = "") -> str:
        """Return the table of a topic's records.

        Raises ValueError for a topic that `topic_regex` does not match, and for a route that cannot be part of a name.
        """
        values = {TOPIC: topic, ROUTE: route}
        if self.topic_regex is not None:
            match = self.topic_regex.fullmatch(topic)
            if match is None:
                raise ValueError(f"topic {topic} does not match table.topic.regex={self.topic_regex.text}")
            values |= {str(number): group or "" for number, group in enumerate(match.groups(), 1)}
        if self.has_routes and _ROUTE_VALUE.fullmatch(route) is None:
            raise ValueError(
                f"the value {route!r} of the field {self.route_field} cannot be part of a table's name: expected 1 to "
                "200 letters, digits, '_', '-' and '.', without '.' at the ends"
            )
        return _PLACEHOLDER.sub(lambda placeholder: values[placeholder[1]], self.text)

    def make_example(self) -> str:
        """Return a name as the template may produce it, to check its form; a value may consist of several parts."""
        return _PLACEHOLDER.sub("x.x", self.text)
