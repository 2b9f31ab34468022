"""Client of the herder: sends requests with the request timeout."""

from __future__ import annotations

from typing import Final, TypeVar

from actors.runtime.mailbox import Ask, ask_async
from kraal.core.errors import TimedOut, Unavailable
from web.middleware.admission import Scarce
from web.rendering import timeout_text
from web.settings import Services

R = TypeVar("R")

RETRY_AFTER_S: Final = 10
"""Retry delay while the worker cannot start and waits for an administrator."""


async def ask_herder(services: Services, message: Ask[R], *, bypass_limit: bool = False) -> R:
    """Ask the herder and await its answer. Raises the message's errors, Unavailable, and TimedOut with the stage.

    A request that timed out is not canceled: it may still take effect. For operations of the leader or an owner, see
    `web.requests.forward`. `bypass_limit`: ask even if too many requests wait.
    """
    problem = services.settings.start_problem()
    if problem is not None:
        raise Unavailable(problem, retry_after_s=RETRY_AFTER_S)
    if not bypass_limit:
        services.admission.enter(Scarce.HERDER)
    try:
        return await ask_async(services.herder, message, timeout_s=services.settings.request_timeout_s)
    except TimedOut as exc:
        raise TimedOut(timeout_text(services.published.latest.stage)) from exc
