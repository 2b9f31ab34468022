"""Kraal's exception hierarchy.

    KraalError                    500
    ├── BadRequest                400   the caller's input is wrong
    │   ├── ConfigInvalid         400   a configuration has errors; holds all of them
    │   ├── PatternTooSlow        400   a user's regular expression took too long on a text
    │   └── PluginMissing         400   no such class, or no such version of it, is installed
    ├── Forbidden                 403
    ├── NotFound                  404
    ├── Conflict                  409
    │   ├── AlreadyExists         409
    │   ├── NotLeader             409   forwarded before a client sees it
    │   ├── NotOwner              409   forwarded before a client sees it
    │   └── RetryableConflict             409   a rebalance is under way; answered with Retry-After
    ├── Unavailable               503   starting, or too busy
    ├── TimedOut                  500   no answer in time; says what was going on
    ├── StoreError                500   a log could not be read or written
    │   ├── Fenced                500   a newer leader or task writes now (KIP-618)
    │   ├── GroupInUse            500   a consumer group has members: only they may change its offsets
    │   └── TopicUnusable            500   an internal topic has unsuitable settings; the worker cannot start
    │       └── TopicMisconfigured 500  until an administrator changes the topic
    ├── ProtocolError             500   bytes that do not follow their format
    ├── ProviderFailed            500   a config provider could not resolve a variable
    ├── PluginFailed              500   code of a plugin raised; `trace` starts with the root cause
    └── ActorDied                 500   the actor that had the request died before it answered

Each class has the HTTP `status` of its response. Messages are sentences for an operator, with the offending value;
where Connect has a text, the message is Connect's. A command prints an error's `hint`, which says what to do next, on a
line of its own, and a log in JSON has it in a field; answers over REST do not contain it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HINT = "Hint: "
"""How the line with an error's hint begins."""


class KraalError(Exception):
    """Base class of all errors that Kraal raises."""

    status: int = 500
    hint: str = ""
    """A sentence with the next step; empty if the message says enough."""

    def __init__(self, *args: object, hint: str = "") -> None:
        """Create the error from its message, with a hint or without."""
        super().__init__(*args)
        if hint:
            self.hint = hint


def with_hint(error: KraalError) -> str:
    """Return the message, and the hint on a line of its own."""
    return f"{error}\n{HINT}{error.hint}" if error.hint else str(error)


class BadRequest(KraalError):
    """The caller's input is wrong; the message names the value and what is allowed."""

    status = 400


class ConfigInvalid(BadRequest):
    """A configuration has errors; `errors` lists all of them, in order."""

    def __init__(self, message: str, errors: Sequence[str]) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class PatternTooSlow(BadRequest):
    """Matching a user's regular expression took too long; the message names it and the text."""


class PluginMissing(BadRequest):
    """No installed plugin has this class name, or the required version; the message lists the available ones."""


class Forbidden(KraalError):
    """The worker is configured not to do this."""

    status = 403


class NotFound(KraalError):
    """The named thing does not exist."""

    status = 404


class Conflict(KraalError):
    """The request conflicts with the current state."""

    status = 409


class AlreadyExists(Conflict):
    """A connector with this name already exists."""


class NotLeader(Conflict):
    """Only the leader may do this; `leader_url` is None while there is no leader."""

    def __init__(self, leader_url: str | None) -> None:
        super().__init__(f"this worker is not the leader; leader is {leader_url}")
        self.leader_url = leader_url


class NotOwner(Conflict):
    """Only the worker that runs the instance may do this; `owner_url` is None while unknown."""

    def __init__(self, owner_url: str | None) -> None:
        super().__init__(f"this worker does not run the instance; its owner is {owner_url}")
        self.owner_url = owner_url


class RetryableConflict(Conflict):
    """A rebalance or catch-up is under way; the same request succeeds shortly after."""

    retry_after_s: int = 1


class Unavailable(KraalError):
    """The worker is starting, stopping or too busy; `retry_after_s` is the time until a retry."""

    status = 503

    def __init__(self, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TimedOut(KraalError):
    """No answer in time; the message says what the worker was doing."""


class StoreError(KraalError):
    """A config, status or offset log could not be read or written."""


class Fenced(StoreError):
    """A newer producer uses the transactional id of a leader or task: this one's writes are lost (KIP-618)."""


class GroupInUse(StoreError):
    """A sink's consumer group still has members, so nobody else can change its offsets."""


class TopicUnusable(StoreError):
    """An internal topic has unsuitable settings; a retry does not help."""


class TopicMisconfigured(TopicUnusable):
    """An internal topic has settings that an administrator can change; the hint has the command."""


class StoreUnavailable(StoreError):
    """Stored data cannot be read at the moment, such as while a broker is down; a retry can help."""


class ProtocolError(KraalError):
    """Bytes or JSON do not follow their format."""


class ProviderFailed(KraalError):
    """A config provider could not resolve a variable of a config."""


class PluginFailed(KraalError):
    """A plugin's code raised an error. `trace` is for people: root cause first, then the location."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


class ActorDied(KraalError):
    """The actor with this request died or was stopped before it answered."""
