"""Route with which an application serves the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Match, Mount
from typing_extensions import override

from web.ui.options import PREFIX

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope


class DashboardMount(Mount):
    """Route of the dashboard. Unlike other mounts, it also serves `/ui` itself."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(PREFIX, app)

    @override
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or scope["path"] != PREFIX:
            return super().matches(scope)
        match, child = super().matches({**scope, "path": f"{PREFIX}/"})
        return match, {**child, "path": f"{PREFIX}/"}
