"""The list of connectors: filtered, sorted by urgency by default, and paginated. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from web.ui.views.json_values import mapping, text
from web.ui.views.progress import Progress, parse_progress, parse_stalls
from web.ui.views.states import RANK, DisplayState
from web.ui.views.statuses import ConnectorStatus, connector_status, parse_state

PER_PAGE: Final = 50
MAX_BULK_CONNECTORS: Final = 1_000
"""Maximum number of connectors per action."""
_MAX_PAGE_DIGITS: Final = 6
TYPES: Final = ("source", "sink")


@dataclass(frozen=True)
class Row:
    """Connector in the list. Details are parsed lazily, because most rows are only sorted and counted."""

    name: str
    raw_status: object
    """Unparsed status."""
    raw_progress: object
    """Unparsed progress."""
    state: DisplayState
    plugin: str
    """Class of the connector; empty if unknown."""

    @cached_property
    def status(self) -> ConnectorStatus:
        """Status of the connector and its tasks."""
        return connector_status(self.name, self.raw_status, parse_stalls(self.raw_progress))

    @cached_property
    def progress(self) -> Progress:
        """Metrics of the tasks."""
        return parse_progress(self.raw_progress)

    @property
    def plugin_name(self) -> str:
        """Class name without the package."""
        return self.plugin.rpartition(".")[2] or self.plugin


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Filters, sort order and page in the URL's query; empty filters match all connectors."""

    state: str = ""
    type: str = ""
    q: str = ""
    """Substring of a name or class, case-insensitive."""
    sort: str = ""
    """Key of `SORTS`, prefixed with `-` for descending order; empty for order by urgency."""
    page: int = 1
    worker: str = ""

    def query(self, **changes: str | int) -> dict[str, str | int]:
        """Return the query with `changes` applied. Unless the page is set, any change resets the page to 1."""
        page = self.page if not changes else 1
        parameters: dict[str, str | int] = {
            "state": self.state, "type": self.type, "q": self.q, "worker": self.worker, "sort": self.sort,
            "page": page, **changes,
        }  # fmt: skip
        return {key: value for key, value in parameters.items() if value and (key, value) != ("page", 1)}

    @property
    def description(self) -> str:
        """Description of the filters, such as `in state failed, of type sink`; empty without filters."""
        filters = {
            "in state": self.state, "of type": self.type, "on worker": self.worker,
            "with a name or class that contains": self.q and f"“{self.q}”",
        }  # fmt: skip
        return ", ".join(f"{label} {value}" for label, value in filters.items() if value)

    def sorted_by(self, key: str) -> str:
        """Return the sort order for a column's link: descending if the list is in the column's ascending order."""
        return f"-{key}" if self.sort == key else key


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Page of the list."""

    choice: Choice
    rows: Sequence[Row]
    total: int
    """Number of all connectors."""
    match_count: int
    """Number of matching connectors."""
    counts: Mapping[DisplayState, int]
    """Number of connectors by state, before filtering by state."""
    page: int
    pages: int
    has_metrics: bool
    """Whether metrics are available."""

    @property
    def exceeds_page(self) -> bool:
        """Whether the matching connectors exceed a page, but not the limit per action."""
        return len(self.rows) < self.match_count <= MAX_BULK_CONNECTORS

    @property
    def exceeds_action_limit(self) -> bool:
        """Whether the matching connectors exceed the limit per action."""
        return self.match_count > MAX_BULK_CONNECTORS


SORTS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "name": lambda row: row.name,
    "type": lambda row: (row.status.type, row.plugin_name),
    "tasks": lambda row: len(row.status.tasks),
    "rate": lambda row: row.progress.records_per_s or 0.0,
    "backlog": lambda row: row.progress.backlog or 0.0,
}


def build_rows(statuses: object, infos: object, progress: object = None) -> tuple[Row, ...]:
    """Return all connectors, from responses to `GET /connectors?expand=…` for `status`, `info` and `progress`."""
    configs, metrics = mapping(infos), mapping(progress)
    return tuple(
        _build_row(name, mapping(parts).get("status"), mapping(configs.get(name)), mapping(metrics.get(name)))
        for name, parts in mapping(statuses).items()
    )


def _build_row(name: str, status: object, info: Mapping[str, Any], metrics: Mapping[str, Any]) -> Row:
    progress = metrics.get("progress")
    config = mapping(mapping(info.get("info")).get("config"))
    return Row(
        name, status, progress, parse_state(status, parse_stalls(progress)), text(config, "connector.class")
    )


def parse_choice(query: Mapping[str, str]) -> Choice:
    """Parse the query of a list's URL, ignoring unknown parameters."""
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


def filter_rows(rows: Iterable[Row], choice: Choice) -> list[Row]:
    """Return all matching connectors, in the order of the list."""
    return _filter_by_state(_filter_in_all_states(rows, choice), choice)


def _filter_by_state(candidates: Iterable[Row], choice: Choice) -> list[Row]:
    """Filter rows by state and sort them."""
    matching_rows = [row for row in candidates if not choice.state or row.state.value == choice.state]
    matching_rows.sort(key=lambda row: (RANK[row.state], row.name))
    key = SORTS.get(choice.sort.removeprefix("-"))
    if key is not None:
        matching_rows.sort(key=key, reverse=choice.sort.startswith("-"))
    return matching_rows


def _filter_in_all_states(rows: Iterable[Row], choice: Choice) -> list[Row]:
    substring = choice.q.casefold()
    return [
        row
        for row in rows
        if (not choice.type or row.status.type == choice.type)
        and (not choice.worker or choice.worker in row.status.workers)
        and (not substring or substring in row.name.casefold() or substring in row.plugin.casefold())
    ]


def listing(rows: Iterable[Row], choice: Choice, *, has_metrics: bool) -> Listing:
    """Return the requested page."""
    all_rows = list(rows)
    candidates = _filter_in_all_states(all_rows, choice)
    matching_rows = _filter_by_state(candidates, choice)
    pages = max(1, -(-len(matching_rows) // PER_PAGE))
    page = min(max(choice.page, 1), pages)
    return Listing(
        choice=choice,
        rows=matching_rows[(page - 1) * PER_PAGE : page * PER_PAGE],
        total=len(all_rows),
        match_count=len(matching_rows),
        counts=dict(sorted(Counter(row.state for row in candidates).items(), key=lambda item: RANK[item[0]])),
        page=page,
        pages=pages,
        has_metrics=has_metrics,
    )
