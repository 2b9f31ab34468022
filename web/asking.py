"""Questions to the herder, under the request's timeout."""

from __future__ import annotations

from typing import TypeVar

from actors.mailbox import Ask, ask_async
from kraal.errors import TimedOut
from web.admission import Scarce
from web.render import timeout_text
from web.settings import Services

R = TypeVar("R")


async def ask_herder(services: Services, message: Ask[R], *, always: bool = False) -> R:
    """Ask, and await the answer. Raises what the message names, Unavailable, and TimedOut with the stage.

    A question that timed out is not taken back: it may still take effect. For what only the leader or an owner
    can do, see `web.forward`. `always`: it is asked however many others wait.
    """
    if not always:
        services.admission.enter(Scarce.HERDER)
    try:
        return await ask_async(services.herder, message, timeout_s=services.settings.request_timeout_s)
    except TimedOut as exc:
        raise TimedOut(timeout_text(services.published.latest.stage)) from exc
