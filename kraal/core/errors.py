"""Kraal's exception hierarchy.

    KraalError                    500
    ├── BadRequest                400   the caller's input is wrong
    │   ├── ConfigInvalid         400   a configuration has errors; contains all of them
    │   ├── PatternTooSlow        400   matching a user's regular expression took too long
    │   └── PluginMissing         400   the class, or the required version of it, is not installed
    ├── Forbidden                 403
    ├── NotFound                  404
    ├── Conflict                  409
    │   ├── AlreadyExists         409
    │   ├── NotLeader             409   internal; the request is forwarded instead
    │   ├── NotOwner              409   internal; the request is forwarded instead
    │   └── RetryableConflict     409   a rebalance is in progress; the response has Retry-After
    ├── Unavailable               503   starting, stopping or overloaded
    ├── TimedOut                  500   the request timed out; the message names the current operation
    ├── StoreError                500   a log could not be read or written
    │   ├── Fenced                500   fenced by a newer leader or task (KIP-618)
    │   ├── GroupInUse            500   a consumer group has members, so its offsets cannot be changed
    │   ├── StoreUnavailable      500   stored data is temporarily unavailable
    │   └── TopicUnusable         500   an internal topic has unsuitable settings; the worker cannot start
    │       └── TopicMisconfigured 500  an administrator can change the topic
    ├── ProtocolError             500   bytes or JSON do not conform to their format
    ├── ProviderFailed            500   a config provider could not resolve a variable
    ├── PluginFailed              500   plugin code raised an error; `trace` starts with the root cause
    └── ActorDied                 500   the actor died before it replied

Each class has the HTTP `status` of its response. Messages are sentences for operators and contain the offending value;
if Connect has a message for the error, this message is used. Commands print an error's `hint`, the suggested next step,
on a separate line, and JSON logs contain the hint in a field; REST responses do not contain the hint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

HINT = "Hint: "
"""Prefix of the line with an error's hint."""


class KraalError(Exception):
    """Base class of all errors that Kraal raises."""

    status: int = 500
    hint: str = ""
    """A sentence with the suggested next step; may be empty."""

    def __init__(self, *args: object, hint: str = "") -> None:
        """Create the error from its message and an optional hint."""
        super().__init__(*args)
        if hint:
            self.hint = hint


def format_with_hint(error: KraalError) -> str:
    """Return the message, followed by the hint, if any, on a separate line."""
    return f"{error}\n{HINT}{error.hint}" if error.hint else str(error)


class BadRequest(KraalError):
    """The caller's input is invalid; the message contains the value and the allowed values."""

    status = 400


class ConfigInvalid(BadRequest):
    """A config has errors; `errors` contains all of them, in order."""

    def __init__(self, message: str, errors: Sequence[str]) -> None:
        super().__init__(message)
        self.errors = tuple(errors)


class PatternTooSlow(BadRequest):
    """Matching a user's regular expression took too long; the message contains the expression and the text."""


class PluginMissing(BadRequest):
    """No installed plugin has this class or the required version; the message lists the available alternatives."""


class Forbidden(KraalError):
    """The worker's config forbids the request."""

    status = 403


class NotFound(KraalError):
    """The requested resource does not exist."""

    status = 404


class Conflict(KraalError):
    """The request conflicts with the current state."""

    status = 409


class AlreadyExists(Conflict):
    """A connector with this name already exists."""


class NotLeader(Conflict):
    """Only the leader can process the request; `leader_url` is None if there is no leader."""

    def __init__(self, leader_url: str | None) -> None:
        super().__init__(f"this worker is not the leader; leader is {leader_url}")
        self.leader_url = leader_url


class NotOwner(Conflict):
    """Only the worker that runs the instance can process the request; `owner_url` is None if it is unknown."""

    def __init__(self, owner_url: str | None) -> None:
        super().__init__(f"this worker does not run the instance; its owner is {owner_url}")
        self.owner_url = owner_url


class RetryableConflict(Conflict):
    """A rebalance, or the catch-up with the config topic, is in progress. A retry can succeed after a short time."""

    retry_after_s: int = 1


class Unavailable(KraalError):
    """The worker is starting, stopping or overloaded; `retry_after_s` is the delay before a retry, if known."""

    status = 503

    def __init__(self, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TimedOut(KraalError):
    """The request timed out; the message contains the worker's current operation."""


class StoreError(KraalError):
    """A config, status or offset log could not be read or written."""


class RecordTooLarge(StoreError):
    """One of the records is larger than the log accepts, or all of them together are; smaller writes can succeed."""


class Fenced(StoreError):
    """A newer producer uses the transactional id of a leader or task; this producer's writes fail (KIP-618)."""


class GroupInUse(StoreError):
    """A sink's consumer group has members, so its offsets cannot be changed."""


class TopicUnusable(StoreError):
    """An internal topic has unsuitable settings; not retriable."""


class TopicMisconfigured(TopicUnusable):
    """An internal topic has unsuitable settings that an administrator can change; the hint contains the command."""


class StoreUnavailable(StoreError):
    """Stored data is temporarily unavailable, for example because a broker is down; retriable."""


class ProtocolError(KraalError):
    """Bytes or JSON do not conform to their format."""


class ProviderFailed(KraalError):
    """A config provider could not resolve a variable of a config."""


class PluginFailed(KraalError):
    """A plugin's code raised an error. `trace` starts with the root cause, followed by the location."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


class ActorDied(KraalError):
    """The actor died or was stopped before it replied to the request."""
