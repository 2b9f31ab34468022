"""How many records a task could not handle, and what became of them.

Source: ErrorHandlingMetrics (Kafka 4.3.0). Loads nothing, for it comes back from Spark's Python processes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCounts:
    """What happened to records in some time; sums add up."""

    failures: int = 0
    """Tries that failed, those that were repeated included."""
    errors: int = 0
    """Records that could not be handled."""
    skipped: int = 0
    """Those of them that were left out, because errors are tolerated."""
    retries: int = 0
    logged: int = 0
    dead_letters: int = 0
    """Records given to the dead letter topic."""
    dead_letters_failed: int = 0
    last_error_ms: int = 0
    """Since the epoch; 0: never."""

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
