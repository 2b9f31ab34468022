"""Counts of a batch for the ledger, from the outcomes of its records."""

from __future__ import annotations

from kraal.ledger.counts import Counts
from kraal.metrics.errors import NO_ERRORS, ErrorCounts


def count_batch(
    *, read: int | None, written: int | None, dropped: int = 0, errors: ErrorCounts = NO_ERRORS
) -> Counts:
    """Return the counts of a batch; `errors` are those of its skipped records."""
    dead_letters = count_dead_letters(errors)
    return Counts(
        read=read,
        written=written,
        dropped=dropped,
        dead_letters=dead_letters,
        tolerated=errors.skipped - dead_letters,
    )


def count_dead_letters(errors: ErrorCounts) -> int:
    """Return the number of records that became dead letters.

    `ErrorCounts.dead_letters` also contains failed writes of dead letters, which were repeated.
    """
    return errors.dead_letters - errors.dead_letters_failed
