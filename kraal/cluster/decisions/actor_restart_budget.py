"""Restart budget: limits how often a dead actor is restarted. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorRestartBudget:
    """Budget of `restarts` per `window_s` seconds.

    The first restart is immediate; later ones have exponential backoff from `backoff_s` to `backoff_max_s`.
    """

    restarts: int = 5
    window_s: float = 60.0
    backoff_s: float = 0.05
    backoff_max_s: float = 10.0

    def deaths_in_window(self, deaths: tuple[float, ...], now_s: float) -> tuple[float, ...]:
        """Return the times of the deaths within the window."""
        return tuple(death_s for death_s in deaths if death_s > now_s - self.window_s)

    def delay_s(self, deaths: tuple[float, ...], now_s: float) -> float | None:
        """Return the delay after the death at `now_s` (the last of `deaths`); None if the budget is exhausted."""
        count = len(self.deaths_in_window(deaths, now_s))
        if count > self.restarts:
            return None
        return 0.0 if count <= 1 else min(self.backoff_s * 2 ** (count - 2), self.backoff_max_s)
