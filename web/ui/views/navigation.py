"""Entries of the navigation and tabs of a connector's page. Add an entry for a new page here. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from web.ui.features import Features


@dataclass(frozen=True, slots=True)
class Entry:
    """Link of the navigation (to `/ui/KEY`) or of a connector's tabs (to `/ui/connectors/NAME/KEY`)."""

    key: str
    title: str
    needs: str = ""
    """Name of the required feature."""
    writes: bool = False
    """Whether a read-only dashboard hides the entry."""


NAVIGATION: Final = (
    Entry("connectors", "Connectors"),
    Entry("cluster", "Cluster"),
    Entry("create", "Create", writes=True),
    Entry("plugins", "Plugins"),
    Entry("events", "Events", needs="events"),
)

SINK_TABS: Final = frozenset({"table", "letters"})
"""Keys of the tabs that sources do not have."""

CONNECTOR_TABS: Final = (
    Entry("", "Overview"),
    Entry("charts", "Charts", needs="series"),
    Entry("history", "History", needs="history"),
    Entry("logs", "Logs", needs="logs"),
    Entry("config", "Config"),
    Entry("offsets", "Offsets"),
    Entry("topics", "Topics", needs="topics"),
    Entry("delivery", "Delivery", needs="proofs"),
    Entry("table", "Table", needs="tables"),
    Entry("letters", "Dead letters", needs="dead_letters"),
)
"""Tabs of a connector; the empty key is the connector's overview."""


@dataclass(frozen=True, slots=True)
class Shortcut:
    """Keyboard shortcut. `keys` are separated by spaces."""

    keys: str
    description: str
    is_action: bool = False
    """Whether a read-only dashboard hides the shortcut."""
    needs: str = ""
    """Name of the required feature."""


SHORTCUTS: Final = (
    Shortcut("/", "Search"),
    Shortcut("j k", "Next and previous row"),
    Shortcut("Enter", "Open the row"),
    Shortcut("g c", "Go to the connectors"),
    Shortcut("g w", "Go to the cluster and its workers"),
    Shortcut("g p", "Go to the plugins"),
    Shortcut("g e", "Go to the events", needs="events"),
    Shortcut("r", "Restart the row or the connector", is_action=True),
    Shortcut("p", "Pause or resume the connector", is_action=True),
    Shortcut("s", "Stop the connector", is_action=True),
    Shortcut("e", "Edit the connector", is_action=True),
    Shortcut("x", "Select the row", is_action=True),
    Shortcut("?", "Show the keyboard shortcuts"),
    Shortcut("Esc", "Close the dialog"),
)
"""Keyboard shortcuts listed in the help; implemented by scripts in `static/`."""


def available(entries: Iterable[Entry], features: Features, *, read_only: bool) -> list[Entry]:
    """Return the entries that the worker and a `read_only` dashboard support."""
    return [
        entry
        for entry in entries
        if (not entry.needs or getattr(features, entry.needs)) and not (entry.writes and read_only)
    ]
