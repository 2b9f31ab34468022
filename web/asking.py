"""Questions to the herder, under the request's timeout.

The only place that meets NotLeader and NotOwner: today both are answered with 409; `web.forward` will send
the request on to the worker that they name.
"""

from __future__ import annotations

from typing import TypeVar

from actors.mailbox import Ask, ask_async
from kraal.errors import Conflict, Momentary, NotLeader, NotOwner, TimedOut, Unavailable
from web.render import timeout_text
from web.settings import Services

R = TypeVar("R")


async def ask_herder(services: Services, message: Ask[R]) -> R:
    """Ask, and await the answer. Raises what the message names, Unavailable, and TimedOut with the stage.

    A question that timed out is not taken back: it may still take effect.
    """
    settings = services.settings
    if services.herder.open_questions >= settings.max_open_questions:
        raise Unavailable(
            f"The worker is too busy: {services.herder.open_questions} requests wait for it", retry_after_s=1
        )
    try:
        return await ask_async(services.herder, message, timeout_s=settings.request_timeout_s)
    except TimedOut as exc:
        raise TimedOut(timeout_text(services.published.latest.stage)) from exc
    except NotLeader as exc:
        raise _elsewhere(exc.leader_url) from exc
    except NotOwner as exc:
        raise _elsewhere(exc.owner_url) from exc


def _elsewhere(url: str | None) -> Conflict:
    """Return the answer for work that belongs to the worker at `url` (contract F1, F2)."""
    if url is None:
        return Momentary(
            "Cannot complete request momentarily due to no known leader URL, "
            "likely because a rebalance was underway."
        )
    return Conflict("Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
