"""The list of connectors: filtered, sorted with the most urgent first, and cut into pages. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from web.ui.views.json_values import mapping, text
from web.ui.views.progress import Progress, progress_of, stalls_of
from web.ui.views.states import RANK, Shown
from web.ui.views.statuses import ConnectorStatus, connector_status, state_of

PER_PAGE: Final = 50
MOST_AT_ONCE: Final = 1_000
"""Connectors that one action can be for."""
_LONGEST_PAGE: Final = 6
TYPES: Final = ("source", "sink")


@dataclass(frozen=True)
class Row:
    """A connector in the list. Most rows are only sorted and counted, so what a page shows is read when it is asked."""

    name: str
    found: object
    """Its status, as answered."""
    numbers: object
    """Its progress, as answered."""
    state: Shown
    plugin: str
    """Class of the connector; empty if not known."""

    @cached_property
    def status(self) -> ConnectorStatus:
        """The connector with its tasks."""
        return connector_status(self.name, self.found, stalls_of(self.numbers))

    @cached_property
    def progress(self) -> Progress:
        """Numbers of its tasks."""
        return progress_of(self.numbers)

    @property
    def plugin_name(self) -> str:
        """The class without its package."""
        return self.plugin.rpartition(".")[2] or self.plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the reader chose, in the URL's query; empty: no restriction."""

    state: str = ""
    type: str = ""
    q: str = ""
    """Part of a name or class, in any letter case."""
    sort: str = ""
    """A key of `SORTS`, after `-` for descending; empty: by urgency."""
    page: int = 1
    worker: str = ""

    def query(self, **changes: str | int) -> dict[str, str | int]:
        """Return the query of a URL, with changes; any change but of the page leads to page 1."""
        page = self.page if not changes else 1
        found: dict[str, str | int] = {
            "state": self.state, "type": self.type, "q": self.q, "worker": self.worker, "sort": self.sort,
            "page": page, **changes,
        }  # fmt: skip
        return {key: value for key, value in found.items() if value and (key, value) != ("page", 1)}

    @property
    def told(self) -> str:
        """The filters in words, such as `in state failed, of type sink`; empty if there are none."""
        found = {
            "in state": self.state, "of type": self.type, "on worker": self.worker,
            "with a name or class that contains": self.q and f"“{self.q}”",
        }  # fmt: skip
        return ", ".join(f"{what} {value}" for what, value in found.items() if value)

    def sorted_by(self, key: str) -> str:
        """Return the sort of a column's link: ascending, or the other way round if it is already chosen."""
        return f"-{key}" if self.sort == key else key


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The page of the list."""

    choice: Choice
    rows: Sequence[Row]
    total: int
    """Number of all connectors."""
    found: int
    """Number of those that match."""
    counts: Mapping[Shown, int]
    """Numbers by state of those that match everything but the state."""
    page: int
    pages: int
    numbers: bool
    """Whether there are numbers to show."""

    @property
    def more_than_a_page(self) -> bool:
        """Whether those that match do not fit on the page, and one action can still be for all of them."""
        return len(self.rows) < self.found <= MOST_AT_ONCE

    @property
    def too_many(self) -> bool:
        """Whether more match than one action can be for."""
        return self.found > MOST_AT_ONCE


SORTS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "name": lambda row: row.name,
    "type": lambda row: (row.status.type, row.plugin_name),
    "tasks": lambda row: len(row.status.tasks),
    "rate": lambda row: row.progress.records_per_s or 0.0,
    "backlog": lambda row: row.progress.backlog or 0.0,
}


def rows_of(statuses: object, infos: object, progress: object = None) -> tuple[Row, ...]:
    """Return all connectors, from the answers to `GET /connectors?expand=…`: `status`, `info` and `progress`."""
    configs, numbers = mapping(infos), mapping(progress)
    return tuple(
        _row(name, mapping(parts).get("status"), mapping(configs.get(name)), mapping(numbers.get(name)))
        for name, parts in mapping(statuses).items()
    )


def _row(name: str, status: object, info: Mapping[str, Any], numbers: Mapping[str, Any]) -> Row:
    progress = numbers.get("progress")
    config = mapping(mapping(info.get("info")).get("config"))
    return Row(name, status, progress, state_of(status, stalls_of(progress)), text(config, "connector.class"))


def choice_of(query: Mapping[str, str]) -> Choice:
    """Return what the parameters of a list's address choose; others are ignored."""
    page = query.get("page", "")
    plain = page.isascii() and page.isdecimal() and len(page) <= _LONGEST_PAGE
    return Choice(
        state=query.get("state", ""),
        type=query.get("type", ""),
        q=query.get("q", "").strip(),
        sort=query.get("sort", ""),
        page=int(page) if plain else 1,
        worker=query.get("worker", ""),
    )


def matching(rows: Iterable[Row], choice: Choice) -> list[Row]:
    """Return all connectors that match, in the list's order."""
    return _in_state(_in_any_state(rows, choice), choice)


def _in_state(near: Iterable[Row], choice: Choice) -> list[Row]:
    """Return those of the rows that are in the chosen state, in the list's order."""
    found = [row for row in near if not choice.state or row.state.value == choice.state]
    found.sort(key=lambda row: (RANK[row.state], row.name))
    key = SORTS.get(choice.sort.removeprefix("-"))
    if key is not None:
        found.sort(key=key, reverse=choice.sort.startswith("-"))
    return found


def _in_any_state(rows: Iterable[Row], choice: Choice) -> list[Row]:
    part = choice.q.casefold()
    return [
        row
        for row in rows
        if (not choice.type or row.status.type == choice.type)
        and (not choice.worker or choice.worker in row.status.workers)
        and (not part or part in row.name.casefold() or part in row.plugin.casefold())
    ]


def listing(rows: Iterable[Row], choice: Choice, *, numbers: bool) -> Listing:
    """Return the page that the reader chose."""
    everything = list(rows)
    near = _in_any_state(everything, choice)
    found = _in_state(near, choice)
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(max(choice.page, 1), pages)
    return Listing(
        choice=choice,
        rows=found[(page - 1) * PER_PAGE : page * PER_PAGE],
        total=len(everything),
        found=len(found),
        counts=dict(sorted(Counter(row.state for row in near).items(), key=lambda item: RANK[item[0]])),
        page=page,
        pages=pages,
        numbers=numbers,
    )
