"""The list of connectors: filtered, sorted with the most urgent first, and cut into pages. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import mapping, text
from web.ui.views.progress import NO_PROGRESS, Progress, progress_of
from web.ui.views.states import RANK, Shown
from web.ui.views.statuses import ConnectorStatus, connector_status

PER_PAGE: Final = 50
TYPES: Final = ("source", "sink")


@dataclass(frozen=True, slots=True)
class Row:
    """A connector in the list."""

    status: ConnectorStatus
    state: Shown
    plugin: str
    """Class of the connector; empty if not known."""
    progress: Progress

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.status.name

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
    progress = progress_of(numbers["progress"]) if "progress" in numbers else NO_PROGRESS
    found = connector_status(name, status, progress.stalled)
    config = mapping(mapping(info.get("info")).get("config"))
    return Row(found, found.state, text(config, "connector.class"), progress)


def listing(rows: Iterable[Row], choice: Choice, *, numbers: bool) -> Listing:
    """Return the page that the reader chose."""
    everything = list(rows)
    part = choice.q.casefold()
    near = [
        row
        for row in everything
        if (not choice.type or row.status.type == choice.type)
        and (not choice.worker or choice.worker in row.status.workers)
        and (not part or part in row.name.casefold() or part in row.plugin.casefold())
    ]
    matching = [row for row in near if not choice.state or row.state.value == choice.state]
    matching.sort(key=lambda row: (RANK[row.state], row.name))
    key = SORTS.get(choice.sort.removeprefix("-"))
    if key is not None:
        matching.sort(key=key, reverse=choice.sort.startswith("-"))
    pages = max(1, -(-len(matching) // PER_PAGE))
    page = min(max(choice.page, 1), pages)
    return Listing(
        choice=choice,
        rows=matching[(page - 1) * PER_PAGE : page * PER_PAGE],
        total=len(everything),
        found=len(matching),
        counts=dict(sorted(Counter(row.state for row in near).items(), key=lambda item: RANK[item[0]])),
        page=page,
        pages=pages,
        numbers=numbers,
    )
