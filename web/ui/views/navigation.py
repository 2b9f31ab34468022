"""Entries of the navigation and tabs of a connector's page: a new page adds its line here. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from web.ui.features import Features


@dataclass(frozen=True, slots=True)
class Entry:
    """A link: of the navigation, to `/ui/KEY`; of a connector's tabs, to `/ui/connectors/NAME/KEY`."""

    key: str
    title: str
    needs: str = ""
    """Name of the feature without which it is left out."""
    writes: bool = False
    """Left out on a read-only dashboard."""


NAVIGATION: Final = (
    Entry("connectors", "Connectors"),
    Entry("cluster", "Cluster"),
    Entry("create", "Create", writes=True),
    Entry("plugins", "Plugins"),
    Entry("events", "Events", needs="events"),
)

LETTERS: Final = "letters"
"""Key of the tab that only sinks have."""

CONNECTOR_TABS: Final = (
    Entry("", "Overview"),
    Entry("charts", "Charts", needs="series"),
    Entry("history", "History", needs="history"),
    Entry("logs", "Logs", needs="logs"),
    Entry("config", "Config"),
    Entry("offsets", "Offsets"),
    Entry("topics", "Topics", needs="topics"),
    Entry(LETTERS, "Dead letters", needs="dead_letters"),
)
"""The empty key is the connector's page itself."""


KEYS: Final = (
    ("/", "Search", False),
    ("j k", "Next and previous row", False),
    ("Enter", "Open the row", False),
    ("g c", "Go to the connectors", False),
    ("g w", "Go to the cluster and its workers", False),
    ("g p", "Go to the plugins", False),
    ("g e", "Go to the events", False),
    ("r", "Restart the row or the connector", True),
    ("p", "Pause or resume it", True),
    ("s", "Stop the connector", True),
    ("e", "Edit the connector", True),
    ("x", "Select the row", True),
    ("?", "This list", False),
    ("Esc", "Close", False),
)
"""Keyboard shortcuts for the page's list of them, and whether they act; scripts in `static/` carry them out."""


def available(entries: Iterable[Entry], features: Features, *, read_only: bool) -> list[Entry]:
    """Return the entries that this worker supports."""
    return [
        each
        for each in entries
        if (not each.needs or getattr(features, each.needs)) and not (each.writes and read_only)
    ]
