"""What a dashboard remembers between two requests of a browser: results of actions, and the key of forms' seals."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import Final

from web.ui.views.commands import Result
from web.ui.views.form_post import Seals

_MOST_NOTICES: Final = 64
_MOST_RESULTS: Final = 100
_LONGEST_TEXT: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The result of an action, shown on the page that follows it."""

    title: str
    results: tuple[Result, ...]
    left_out: int = 0
    """Number of results that are not kept."""

    @property
    def failed(self) -> int:
        """Number of results that are errors."""
        return sum(not each.done for each in self.results)


FORGOTTEN: Final = Notice(title="The request was sent; its result is no longer known here.", results=())


class Notices:
    """The latest notices by tokens that nobody can guess, so that an address shows only what happened. One thread."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Notice] = OrderedDict()

    def keep(self, notice: Notice) -> str:
        """Keep a notice, and forget the oldest of too many; return its token."""
        results = tuple(
            replace(each, name=each.name[:_LONGEST_TEXT], text=each.text[:_LONGEST_TEXT])
            for each in notice.results[:_MOST_RESULTS]
        )
        token = secrets.token_urlsafe(12)
        self._kept[token] = replace(notice, results=results, left_out=len(notice.results) - len(results))
        while len(self._kept) > _MOST_NOTICES:
            self._kept.popitem(last=False)
        return token

    def find(self, token: str) -> Notice | None:
        """Return a notice; None without a token, and a notice that says so if it is forgotten."""
        return self._kept.get(token, FORGOTTEN) if token else None


@dataclass(frozen=True, slots=True)
class Memory:
    """What all pages of a dashboard share and change."""

    notices: Notices = field(default_factory=Notices)
    seals: Seals = field(default_factory=lambda: Seals(secrets.token_bytes(32)))
