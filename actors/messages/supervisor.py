"""What the supervisor and the validator receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.mailbox import Address, Ask, Tell
from actors.system import Begin, Factory

if TYPE_CHECKING:
    from kraal.ids import Config


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervise(Tell):
    """Start an actor at `address` and keep it alive, within the budget; then call `gave_up` with the cause.

    `reborn` is called after each restart, when messages reach the new life.
    """

    address: Address
    factory: Factory
    gave_up: Callable[[BaseException], None]
    reborn: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True)
class Release(Tell):
    """Stop the actor at `address` and forget it."""

    address: Address


@dataclass(frozen=True, slots=True)
class ActorDied(Tell):
    """The actor at `address` died of `error`."""

    address: Address
    error: BaseException


@dataclass(frozen=True, slots=True)
class RestartDue(Tell):
    """The back-off before the actor's next life is over."""

    address: Address


@dataclass(frozen=True, slots=True)
class ListActors(Ask[dict[str, int]]):
    """Return how often each living actor was restarted, by its address's name."""


@dataclass(frozen=True, slots=True)
class CrashActor(Ask[None]):
    """Make a living actor die of `reason` at its next message: for the test control port. Raises NotFound."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Tell):
    """Check a connector config; `Validated` with `token` goes to `reply_to`."""

    token: int
    config: Config
    reply_to: Address


SupervisorMessage = Begin | Supervise | Release | ActorDied | RestartDue | ListActors | CrashActor
ValidatorMessage = Begin | Validate
