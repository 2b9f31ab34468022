"""The list of connectors: filtered, sorted with the most urgent first, and cut into pages. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from web.ui.views.json_values import mapping, text
from web.ui.views.progress import Progress, parse_progress, parse_stalls
from web.ui.views.states import RANK, Shown
from web.ui.views.statuses import ConnectorStatus, connector_status, parse_state

PER_PAGE: Final = 50
MAX_BULK_CONNECTORS: Final = 1_000
"""Maximum number of connectors in one action."""
_MAX_PAGE_DIGITS: Final = 6
TYPES: Final = ("source", "sink")


@dataclass(frozen=True)
class Row:
    """A connector in the list. Most rows are only sorted and counted, so the details are parsed lazily."""

    name: str
    raw_status: object
    """Unparsed status."""
    raw_progress: object
    """Unparsed progress."""
    state: Shown
    plugin: str
    """Class of the connector; empty if unknown."""

    @cached_property
    def status(self) -> ConnectorStatus:
        """The connector with its tasks."""
        return connector_status(self.name, self.raw_status, parse_stalls(self.raw_progress))

    @cached_property
    def progress(self) -> Progress:
        """Metrics of its tasks."""
        return parse_progress(self.raw_progress)

    @property
    def plugin_name(self) -> str:
        """The class without its package."""
        return self.plugin.rpartition(".")[2] or self.plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Filters, sort and page in the URL's query; empty: no restriction."""

    state: str = ""
    type: str = ""
    q: str = ""
    """Part of a name or class, case-insensitive."""
    sort: str = ""
    """A key of `SORTS`, after `-` for descending; empty: by urgency."""
    page: int = 1
    worker: str = ""

    def query(self, **changes: str | int) -> dict[str, str | int]:
        """Return the query of a URL with changes; all changes except of the page reset the page to 1."""
        page = self.page if not changes else 1
        parameters: dict[str, str | int] = {
            "state": self.state, "type": self.type, "q": self.q, "worker": self.worker, "sort": self.sort,
            "page": page, **changes,
        }  # fmt: skip
        return {key: value for key, value in parameters.items() if value and (key, value) != ("page", 1)}

    @property
    def description(self) -> str:
        """The filters in words, such as `in state failed, of type sink`; empty without filters."""
        filters = {
            "in state": self.state, "of type": self.type, "on worker": self.worker,
            "with a name or class that contains": self.q and f"“{self.q}”",
        }  # fmt: skip
        return ", ".join(f"{what} {value}" for what, value in filters.items() if value)

    def sorted_by(self, key: str) -> str:
        """Return the sort of a column's link: ascending, or descending if the list is sorted by it already."""
        return f"-{key}" if self.sort == key else key


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list."""

    choice: Choice
    rows: Sequence[Row]
    total: int
    """Number of all connectors."""
    matches: int
    """Number of matching connectors."""
    counts: Mapping[Shown, int]
    """Number of connectors by state, before filtering by state."""
    page: int
    pages: int
    has_metrics: bool
    """Whether metrics are available."""

    @property
    def more_than_a_page(self) -> bool:
        """Whether the matching connectors exceed the page, but not the limit of one action."""
        return len(self.rows) < self.matches <= MAX_BULK_CONNECTORS

    @property
    def too_many(self) -> bool:
        """Whether the matching connectors exceed the limit of one action."""
        return self.matches > MAX_BULK_CONNECTORS


SORTS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "name": lambda row: row.name,
    "type": lambda row: (row.status.type, row.plugin_name),
    "tasks": lambda row: len(row.status.tasks),
    "rate": lambda row: row.progress.records_per_s or 0.0,
    "backlog": lambda row: row.progress.backlog or 0.0,
}


def build_rows(statuses: object, infos: object, progress: object = None) -> tuple[Row, ...]:
    """Return all connectors, from the answers to `GET /connectors?expand=…`: `status`, `info` and `progress`."""
    configs, metrics = mapping(infos), mapping(progress)
    return tuple(
        _row(name, mapping(parts).get("status"), mapping(configs.get(name)), mapping(metrics.get(name)))
        for name, parts in mapping(statuses).items()
    )


def _row(name: str, status: object, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> Row:
    progress = metrics.get("progress")
    config = mapping(mapping(info.get("info")).get("config"))
    return Row(
        name, status, progress, parse_state(status, parse_stalls(progress)), text(config, "connector.class")
    )


def parse_choice(query: Mapping[str, str]) -> Choice:
    """Parse the parameters of a list's URL; unknown ones are ignored."""
    page = query.get("page", "")
    is_valid = page.isascii() and page.isdecimal() and len(page) <= _MAX_PAGE_DIGITS
    return Choice(
        state=query.get("state", ""),
        type=query.get("type", ""),
        q=query.get("q", "").strip(),
        sort=query.get("sort", ""),
        page=int(page) if is_valid else 1,
        worker=query.get("worker", ""),
    )


def filter_by_name(rows: Iterable[Row], choice: Choice) -> list[Row]:
    """Return all matching connectors, in the list's order."""
    return _in_state(_in_any_state(rows, choice), choice)


def _in_state(candidates: Iterable[Row], choice: Choice) -> list[Row]:
    """Filter rows by state and sort them."""
    selected = [row for row in candidates if not choice.state or row.state.value == choice.state]
    selected.sort(key=lambda row: (RANK[row.state], row.name))
    key = SORTS.get(choice.sort.removeprefix("-"))
    if key is not None:
        selected.sort(key=key, reverse=choice.sort.startswith("-"))
    return selected


def _in_any_state(rows: Iterable[Row], choice: Choice) -> list[Row]:
    part = choice.q.casefold()
    return [
        row
        for row in rows
        if (not choice.type or row.status.type == choice.type)
        and (not choice.worker or choice.worker in row.status.workers)
        and (not part or part in row.name.casefold() or part in row.plugin.casefold())
    ]


def listing(rows: Iterable[Row], choice: Choice, *, has_metrics: bool) -> Listing:
    """Return the requested page."""
    all_rows = list(rows)
    candidates = _in_any_state(all_rows, choice)
    selected = _in_state(candidates, choice)
    pages = max(1, -(-len(selected) // PER_PAGE))
    page = min(max(choice.page, 1), pages)
    return Listing(
        choice=choice,
        rows=selected[(page - 1) * PER_PAGE : page * PER_PAGE],
        total=len(all_rows),
        matches=len(selected),
        counts=dict(sorted(Counter(row.state for row in candidates).items(), key=lambda item: RANK[item[0]])),
        page=page,
        pages=pages,
        has_metrics=has_metrics,
    )
