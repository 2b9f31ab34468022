"""Counts of the records that a task could not process, and of their handling.

Source: ErrorHandlingMetrics (Kafka 4.4.0). Spark's Python processes pickle the counts, so this module imports no other
module of Kraal.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounts:
    """Counts of record errors in a period; can be summed."""

    failures: int = 0
    """Failed attempts, including retried attempts."""
    errors: int = 0
    """Records that could not be processed."""
    skipped: int = 0
    """Failed records that were skipped because errors are tolerated."""
    retries: int = 0
    logged: int = 0
    dead_letters: int = 0
    """Records sent to the dead letter topic."""
    dead_letters_failed: int = 0
    last_error_ms: int = 0
    """Milliseconds since the epoch; 0 without errors."""

    def __add__(self, other: ErrorCounts) -> ErrorCounts:
        return ErrorCounts(
            failures=self.failures + other.failures,
            errors=self.errors + other.errors,
            skipped=self.skipped + other.skipped,
            retries=self.retries + other.retries,
            logged=self.logged + other.logged,
            dead_letters=self.dead_letters + other.dead_letters,
            dead_letters_failed=self.dead_letters_failed + other.dead_letters_failed,
            last_error_ms=max(self.last_error_ms, other.last_error_ms),
        )


NO_ERRORS = ErrorCounts()
