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
    """Name of the required feature."""
    writes: bool = False
    """Hidden on a read-only dashboard."""


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


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A keyboard shortcut: a key, or two keys in sequence."""

    keys: str
    what: str
    acts: bool = False
    """Hidden on a read-only dashboard."""
    needs: str = ""
    """Name of the required feature."""


KEYS: Final = (
    Shortcut("/", "Search"),
    Shortcut("j k", "Next and previous row"),
    Shortcut("Enter", "Open the row"),
    Shortcut("g c", "Go to the connectors"),
    Shortcut("g w", "Go to the cluster and its workers"),
    Shortcut("g p", "Go to the plugins"),
    Shortcut("g e", "Go to the events", needs="events"),
    Shortcut("r", "Restart the row or the connector", acts=True),
    Shortcut("p", "Pause or resume it", acts=True),
    Shortcut("s", "Stop the connector", acts=True),
    Shortcut("e", "Edit the connector", acts=True),
    Shortcut("x", "Select the row", acts=True),
    Shortcut("?", "This list"),
    Shortcut("Esc", "Close"),
)
"""Keyboard shortcuts to list on a page; scripts in `static/` implement them."""


def available(entries: Iterable[Entry], features: Features, *, read_only: bool) -> list[Entry]:
    """Return the entries that this worker supports."""
    return [
        each
        for each in entries
        if (not each.needs or getattr(features, each.needs)) and not (each.writes and read_only)
    ]
