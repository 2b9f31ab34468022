"""Pages: their requests to the cluster, and their templates. Add the `PAGES` of a new module here."""

from __future__ import annotations

from typing import Final

from web.ui.pages import (
    actions,
    charts,
    cluster,
    config,
    connector,
    connectors,
    delivery,
    edit,
    events,
    letters,
    logs,
    offsets,
    plugins,
    table,
    task,
    topics,
)
from web.ui.routing import PageRoute

PAGES: Final[tuple[PageRoute, ...]] = (
    *connectors.PAGES,
    *cluster.PAGES,
    *actions.PAGES,
    *events.PAGES,
    *charts.PAGES,
    *task.PAGES,
    *logs.PAGES,
    *topics.PAGES,
    *letters.PAGES,
    *delivery.PAGES,
    *table.PAGES,
    *connector.PAGES,
    *config.PAGES,
    *edit.PAGES,
    *offsets.PAGES,
    *plugins.PAGES,
)
"""All pages in the order in which their paths are matched."""
