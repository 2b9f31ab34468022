"""State that a dashboard keeps between requests of a browser: results of actions, and the key that seals forms."""

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
    """The result of an action, shown on the page that follows it."""

    title: str
    results: tuple[Result, ...]
    left_out: int = 0
    """Number of results that were dropped."""

    @property
    def failed(self) -> int:
        """Number of results that are errors."""
        return sum(not each.done for each in self.results)


FORGOTTEN: Final = Notice(title="The request was sent; its result is no longer available.", results=())


class Notices:
    """The latest notices by unguessable token, so that no URL can show a forged result. One thread."""

    def __init__(self) -> None:
        self._notices: OrderedDict[str, Notice] = OrderedDict()

    def keep(self, notice: Notice) -> str:
        """Store a notice and return its token; drops the oldest notice if there are too many."""
        results = tuple(
            replace(each, name=each.name[:_MAX_TEXT_LENGTH], text=each.text[:_MAX_TEXT_LENGTH])
            for each in notice.results[:_MAX_RESULTS]
        )
        token = secrets.token_urlsafe(12)
        self._notices[token] = replace(notice, results=results, left_out=len(notice.results) - len(results))
        while len(self._notices) > _MAX_NOTICES:
            self._notices.popitem(last=False)
        return token

    def find(self, token: str) -> Notice | None:
        """Return a notice; None without a token, and `FORGOTTEN` for an expired one."""
        return self._notices.get(token, FORGOTTEN) if token else None


@dataclass(frozen=True, slots=True)
class Memory:
    """Mutable state that all pages of a dashboard share."""

    notices: Notices = field(default_factory=Notices)
    seals: Seals = field(default_factory=lambda: Seals(secrets.token_bytes(32)))
