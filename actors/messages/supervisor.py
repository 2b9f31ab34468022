"""Messages that the supervisor and the validator receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.runtime.mailbox import Address, Ask, Tell
from actors.runtime.system import Begin, Factory

if TYPE_CHECKING:
    from kraal.core.ids import Config


_FORMER_NAMES: Final = {"offset desk": "offset service"}


def current_name(name: str) -> str:
    """Return an actor's current name; tests of plugins may use a deprecated one."""
    return _FORMER_NAMES.get(name, name)


def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervise(Tell):
    """Start an actor at `address` and keep it alive within the budget; then call `on_give_up` with the cause.

    `reborn` is called after each restart, once the new actor receives messages.
    """

    address: Address
    factory: Factory
    on_give_up: Callable[[BaseException], None]
    reborn: Callable[[], None] = nothing
    shares_thread: bool = False
    """See `System.spawn`."""


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
    """The back-off before an actor's restart is over."""

    address: Address


@dataclass(frozen=True, slots=True)
class ListActors(Ask[dict[str, int]]):
    """Return the restart count of each living actor by the name of its address."""


@dataclass(frozen=True, slots=True)
class CrashActor(Ask[None]):
    """Make a living actor die of `reason` at its next message, for the test control port. Raises NotFound."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Tell):
    """Validate a connector config; `Validated` with `token` goes to `reply_to`."""

    token: int
    config: Config
    reply_to: Address


SupervisorMessage = Begin | Supervise | Release | ActorDied | RestartDue | ListActors | CrashActor
ValidatorMessage = Begin | Validate
