"""Sends messages to the herder with the request timeout."""

from __future__ import annotations

from typing import Final, TypeVar

from actors.runtime.mailbox import Ask, ask_async
from kraal.core.errors import TimedOut, Unavailable
from web.middleware.admission import LimitedResource
from web.rendering import timeout_text
from web.settings import Services

R = TypeVar("R")

RETRY_AFTER_S: Final = 10
"""Value of `Retry-After` while startup is blocked until an administrator acts."""


async def ask_herder(services: Services, message: Ask[R], *, bypass_limit: bool = False) -> R:
    """Send a message to the herder and await the reply. Raises the message's errors, Unavailable and TimedOut.

    A request that timed out is not canceled: it may still take effect. For operations of the leader or an owner, see
    `web.requests.forward`. `bypass_limit` skips admission control.
    """
    problem = services.settings.start_problem()
    if problem is not None:
        raise Unavailable(problem, retry_after_s=RETRY_AFTER_S)
    if not bypass_limit:
        services.admission.admit(LimitedResource.HERDER)
    try:
        return await ask_async(services.herder, message, timeout_s=services.settings.request_timeout_s)
    except TimedOut as exc:
        raise TimedOut(timeout_text(services.published.latest.stage)) from exc
