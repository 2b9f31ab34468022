"""A connector's error settings: tolerance, retries, logging.

Source: RetryWithToleranceOperator, ConnectorConfig (Kafka 4.4.0); KIP-298.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from kraal.config.connector.keys import ERROR_KEYS

FIRST_DELAY_MS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """The `errors.*` settings that sources and sinks have in common."""

    all: bool = False
    retry_timeout_ms: int = 0
    """0 disables retries; -1 retries without a limit."""
    retry_delay_max_ms: int = 60_000
    logs: bool = False
    shows_records: bool = False

    @property
    def is_default(self) -> bool:
        """Whether the first error fails the task without a retry or a log message."""
        return not self.all and not self.logs and self.retry_timeout_ms == 0


def read_tolerance(config: Mapping[str, str]) -> Tolerance:
    """Parse the config of a connector. Raises one ConfigInvalid with all errors."""
    parsed_config = ERROR_KEYS.parse(config)
    return Tolerance(
        all=parsed_config["errors.tolerance"] == "all",
        retry_timeout_ms=int(str(parsed_config["errors.retry.timeout"])),
        retry_delay_max_ms=int(str(parsed_config["errors.retry.delay.max.ms"])),
        logs=parsed_config["errors.log.enable"] is True,
        shows_records=parsed_config["errors.log.include.messages"] is True,
    )


def delay_ms(
    attempt: int, *, max_ms: int, remaining_ms: float, draw: Callable[[], float] = random.random
) -> float:
    """Return the delay after attempt number `attempt` (from 1): 300, 600, 1200 … ms, limited to `remaining_ms`.

    A delay above `max_ms` is replaced by a uniformly random delay below `max_ms` (`draw` returns a number from 0 to 1).
    Source: RetryWithToleranceOperator.backoff.
    """
    delay: float = FIRST_DELAY_MS << min(attempt - 1, 40)
    if delay > max_ms:
        delay = draw() * max(0, max_ms)
    return max(0.0, min(delay, remaining_ms))


@dataclass(slots=True)
class Retries:
    """The retries of one operation. Cancellable passes replace `wait`; tests also replace `clock`."""

    tolerance: Tolerance
    wait: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    attempt: int = 0
    _first_failure_s: float | None = None

    def wait_for_retry(self) -> bool:
        """Wait for the configured delay after a failed attempt; return False if the retry timeout has passed."""
        if self._first_failure_s is None:
            self._first_failure_s = self.clock()
        self.attempt += 1
        timeout_ms = self.tolerance.retry_timeout_ms
        remaining_ms = (
            float("inf") if timeout_ms < 0 else timeout_ms - (self.clock() - self._first_failure_s) * 1000
        )
        if remaining_ms <= 0:
            return False
        self.wait(
            delay_ms(self.attempt, max_ms=self.tolerance.retry_delay_max_ms, remaining_ms=remaining_ms) / 1000
        )
        return True
