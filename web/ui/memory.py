"""State that a dashboard keeps between browser requests: results of actions, and the key that seals forms."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from web.ui.views.commands import Result
from web.ui.views.form_post import Seals

_MAX_NOTICES: Final = 64
_MAX_RESULTS: Final = 100
_MAX_TEXT_LENGTH: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Results of an action, shown on the next page."""

    title: str
    results: tuple[Result, ...]
    omitted_count: int = 0
    """Number of results that were dropped."""

    @property
    def failure_count(self) -> int:
        """Number of failed results."""
        return sum(not result.done for result in self.results)


EXPIRED_NOTICE: Final = Notice(title="The request was sent; its result is no longer available.", results=())


class Notices:
    """Latest notices by random token, so that URLs cannot show forged results. Not thread-safe."""

    def __init__(self) -> None:
        self._notices: OrderedDict[str, Notice] = OrderedDict()

    def store(self, notice: Notice) -> str:
        """Store a notice and return its token. The oldest notice is dropped if there are too many."""
        results = tuple(
            replace(result, name=result.name[:_MAX_TEXT_LENGTH], text=result.text[:_MAX_TEXT_LENGTH])
            for result in notice.results[:_MAX_RESULTS]
        )
        token = secrets.token_urlsafe(12)
        self._notices[token] = replace(
            notice, results=results, omitted_count=len(notice.results) - len(results)
        )
        while len(self._notices) > _MAX_NOTICES:
            self._notices.popitem(last=False)
        return token

    def get(self, token: str) -> Notice | None:
        """Return the notice with a token: None for an empty token, `EXPIRED_NOTICE` for an unknown one."""
        return self._notices.get(token, EXPIRED_NOTICE) if token else None


@dataclass(frozen=True, slots=True)
class DashboardState:
    """Mutable state that all pages of a dashboard share."""

    notices: Notices = field(default_factory=Notices)
    seals: Seals = field(default_factory=lambda: Seals(secrets.token_bytes(32)))
