"""Messages that the supervisor and the validator receive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.runtime.mailbox import Address, Ask, Tell
from actors.runtime.system import Begin, Factory

if TYPE_CHECKING:
    from kraal.core.ids import Config


_RENAMED_ACTORS: Final = {"offset desk": "offset service"}


def current_name(name: str) -> str:
    """Return the current name of an actor that may have been renamed; plugin tests may use the old name."""
    return _RENAMED_ACTORS.get(name, name)


def do_nothing() -> None:
    """No-op."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervise(Tell):
    """Start an actor at `address`, and restart it until its budget is exhausted; then call `on_budget_exhausted`.

    `on_budget_exhausted` receives the last error. `on_restart` is called after each restart, once the new actor
    receives messages.
    """

    address: Address
    factory: Factory
    on_budget_exhausted: Callable[[BaseException], None]
    on_restart: Callable[[], None] = do_nothing
    shares_thread: bool = False
    """See `System.spawn`."""


@dataclass(frozen=True, slots=True)
class Release(Tell):
    """Stop the actor at `address`, and end its supervision."""

    address: Address


@dataclass(frozen=True, slots=True)
class ActorDied(Tell):
    """The actor at `address` died with `error`."""

    address: Address
    error: BaseException


@dataclass(frozen=True, slots=True)
class RestartDue(Tell):
    """The backoff before an actor's restart has expired."""

    address: Address


@dataclass(frozen=True, slots=True)
class ListActors(Ask[dict[str, int]]):
    """Return the restart count of each supervised actor by name."""


@dataclass(frozen=True, slots=True)
class CrashActor(Ask[None]):
    """Crash the supervised actor `name` with `reason`, for the test control port. Raises NotFound."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Tell):
    """Validate a connector config; `Validated` with `token` is sent to `reply_to`."""

    token: int
    config: Config
    reply_to: Address


SupervisorMessage = Begin | Supervise | Release | ActorDied | RestartDue | ListActors | CrashActor
ValidatorMessage = Begin | Validate
