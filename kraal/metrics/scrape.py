"""One worker's scrape: takes what is published, and renders it piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from kraal.metrics.families import Identity, families
from kraal.metrics.load import LoadNumbers, load_families
from kraal.metrics.text import render

if TYPE_CHECKING:
    from kraal.cluster.snapshot import Published
    from kraal.metrics.board import Board


@dataclass(frozen=True, slots=True)
class Scrape:
    """Call it for one scrape. Any thread; asks nobody."""

    published: Published
    board: Board
    identity: Identity
    class_of: Callable[[str], str]
    """Gives the full name of a connector's class by what its config says."""
    load: Callable[[], LoadNumbers] | None = None
    """Says how busy the worker is; None: nobody knows."""

    def __call__(self) -> Iterator[str]:
        """Return the text in pieces, all of one moment, each made in a few milliseconds; some are empty."""
        board = self.board
        found = families(
            self.published.latest,
            board.picture(),
            self.identity,
            self.class_of,
            board.time.now(),
            board.stall_s,
        )
        busy = () if self.load is None else load_families(self.load())
        return map(render, chain(found, busy))
