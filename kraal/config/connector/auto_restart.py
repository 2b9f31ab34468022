"""Automatic restarts of FAILED instances: the keys `errors.auto.restart*` of workers and connectors.

Connect leaves it FAILED until somebody asks for a restart, and that is the default. A connector's own value wins
over its worker's, key by key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from kraal.config.checks import Check, between, one_of, unless_null
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width
from kraal.config.values import parse_value

AUTO_RESTART: Final = "errors.auto.restart"
AUTO_RESTART_MAX: Final = "errors.auto.restart.max"
AUTO_RESTART_WINDOW: Final = "errors.auto.restart.window.ms"
AUTO_RESTART_BACKOFF: Final = "errors.auto.restart.backoff.ms"
STALL_TIMEOUT: Final = "task.stall.timeout.ms"

_GROUP: Final = "Error Handling"
_MAX_RESTARTS: Final = 1_000
_MAX_WINDOW_MS: Final = 30 * 24 * 3_600_000
_MAX_BACKOFF_MS: Final = 3_600_000
_MAX_STALL_MS: Final = 7 * 24 * 3_600_000
_WORKERS: Final = "Default: the worker's value."


class Restarted(StrEnum):
    """The kinds of instances that are restarted after a failure."""

    NONE = "none"
    TASK = "task"
    """Tasks."""
    ALL = "all"
    """Tasks, and connectors' own instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRestart:
    """The policy for automatic restarts. Times are seconds."""

    restarted: Restarted = Restarted.NONE
    max_restarts: int = 10
    """Maximum number of restarts of one instance within the window."""
    window_s: float = 3_600.0
    backoff_s: float = 1.0
    """The pause before the first restart within the window; each further one doubles it."""


_NONE: Final = AutoRestart()

_Declared = tuple[str, ConfigType, Check, str, str, object]
_DECLARED: Final[tuple[_Declared, ...]] = (
    (
        AUTO_RESTART, ConfigType.STRING, one_of(*Restarted), "Restart What Failed",
        ("What to restart automatically after a failure that may be temporary: nothing, as in Kafka Connect (none), "
         "failed tasks (task), or failed tasks and connectors (all)."),
        _NONE.restarted.value,
    ),
    (
        AUTO_RESTART_MAX, ConfigType.INT, between(1, _MAX_RESTARTS), "Most Restarts",
        ("Maximum number of restarts of a task or connector within errors.auto.restart.window.ms; after the next "
         "failure it stays FAILED."),
        _NONE.max_restarts,
    ),
    (
        AUTO_RESTART_WINDOW, ConfigType.LONG, between(1, _MAX_WINDOW_MS), "Window of Restarts",
        "Milliseconds for which a restart counts towards errors.auto.restart.max.",
        int(_NONE.window_s * 1000),
    ),
    (
        AUTO_RESTART_BACKOFF, ConfigType.LONG, between(1, _MAX_BACKOFF_MS), "Pause Before a Restart",
        ("Milliseconds between a failure and the first restart. The delay doubles with each further restart within the "
         "window, up to five minutes, and is shortened by a random part of up to one half."),
        int(_NONE.backoff_s * 1000),
    ),
)  # fmt: skip

SUPERVISION: Final = ConfigDef(
    Key(
        name=name, type=kind, default=None, validator=unless_null(check), importance=Importance.MEDIUM,
        doc=f"{doc} {_WORKERS}", group=_GROUP, order=6 + at, width=Width.SHORT, display_name=title,
        source="Kraal",
    )
    for at, (name, kind, check, title, doc, _) in enumerate(_DECLARED)
)  # fmt: skip
"""Of connectors. Java does not know them: they are part of answers only where a config has them."""

WORKER_SUPERVISION: Final = (
    *(
        Key(
            name=name, type=kind, default=default, validator=check, importance=Importance.MEDIUM,
            doc=f"{doc} Connectors can override it.", source="Kraal",
        )
        for name, kind, check, _, doc, default in _DECLARED
    ),
    Key(
        name=STALL_TIMEOUT, type=ConfigType.LONG, default=60_000, importance=Importance.LOW,
        validator=between(0, _MAX_STALL_MS), source="Kraal",
        doc="Maximum time without progress, in milliseconds: of one step of a running task, such as a batch or a "
        "commit, of a sink whose backlog grows while it reads nothing, of a sink without topics, and of a start. A "
        "task or connector without progress for longer is reported as stalled, and its state stays the same. "
        "0: no limit.",
    ),
)  # fmt: skip
"""Of workers."""


def supervision_keys(config: Mapping[str, str | None]) -> list[Key]:
    """Return the keys that a connector's config has."""
    return [key for key in SUPERVISION if key.name in config]


def worker_policy(values: Mapping[str, object]) -> AutoRestart:
    """Return the policy in a worker's validated config."""
    return _with(_NONE, values)


def parse_policy(config: Mapping[str, str | None], worker: AutoRestart) -> AutoRestart:
    """Return the effective policy of a connector; never raises.

    A value that is no value, as one that was written past all checks, or a variable, counts for nothing: nobody
    resolves these here.
    """
    read: dict[str, object] = {}
    for key in SUPERVISION:
        raw = config.get(key.name)
        if raw is None:
            continue
        try:
            value = parse_value(key.name, raw, key.type)
        except ValueError:
            continue
        if key.validator is None or key.validator(key.name, value) is None:
            read[key.name] = value
    return _with(worker, read) if read else worker


def _with(policy: AutoRestart, values: Mapping[str, object]) -> AutoRestart:
    changed: dict[str, Any] = {}
    if (restarted := values.get(AUTO_RESTART)) is not None:
        changed["restarted"] = Restarted(str(restarted))
    if (max_restarts := values.get(AUTO_RESTART_MAX)) is not None:
        changed["max_restarts"] = int(str(max_restarts))
    if (window_ms := values.get(AUTO_RESTART_WINDOW)) is not None:
        changed["window_s"] = int(str(window_ms)) / 1000
    if (backoff_ms := values.get(AUTO_RESTART_BACKOFF)) is not None:
        changed["backoff_s"] = int(str(backoff_ms)) / 1000
    return replace(policy, **changed)
