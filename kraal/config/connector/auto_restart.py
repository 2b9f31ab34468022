"""Automatic restarts of FAILED instances: the keys `errors.auto.restart*` of workers and connectors.

In Connect, and by default, an instance stays FAILED until a user restarts it. Each key of a connector takes precedence
over the same key of the worker.
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
_MAX_STALL_TIMEOUT_MS: Final = 7 * 24 * 3_600_000
_DEFAULT_NOTE: Final = "Default: the worker's value."


class RestartScope(StrEnum):
    """The kinds of instances that are restarted after a failure."""

    NONE = "none"
    TASK = "task"
    """Tasks."""
    ALL = "all"
    """Tasks and connectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRestart:
    """The policy for automatic restarts. Times are in seconds."""

    scope: RestartScope = RestartScope.NONE
    max_restarts: int = 10
    """Maximum number of restarts of one instance within the window."""
    window_s: float = 3_600.0
    backoff_s: float = 1.0
    """The delay before the first restart within the window; doubled with each further restart."""


_DEFAULTS: Final = AutoRestart()

_Declaration = tuple[str, ConfigType, Check, str, str, object]
"""Name, type, check, display name, description and default of a key."""
_DECLARATIONS: Final[tuple[_Declaration, ...]] = (
    (
        AUTO_RESTART, ConfigType.STRING, one_of(*RestartScope), "Automatic Restart",
        ("What to restart automatically after a failure that may be temporary: nothing, as in Kafka Connect (none), "
         "failed tasks (task), or failed tasks and connectors (all)."),
        _DEFAULTS.scope.value,
    ),
    (
        AUTO_RESTART_MAX, ConfigType.INT, between(1, _MAX_RESTARTS), "Maximum Restarts",
        ("Maximum number of restarts of a task or connector within errors.auto.restart.window.ms; after the next "
         "failure it stays FAILED."),
        _DEFAULTS.max_restarts,
    ),
    (
        AUTO_RESTART_WINDOW, ConfigType.LONG, between(1, _MAX_WINDOW_MS), "Restart Window",
        "Milliseconds for which a restart counts towards errors.auto.restart.max.",
        int(_DEFAULTS.window_s * 1000),
    ),
    (
        AUTO_RESTART_BACKOFF, ConfigType.LONG, between(1, _MAX_BACKOFF_MS), "Restart Backoff",
        ("Milliseconds between a failure and the first restart. The delay doubles with each further restart within the "
         "window, up to five minutes, and is shortened by a random part of up to one half."),
        int(_DEFAULTS.backoff_s * 1000),
    ),
)  # fmt: skip

SUPERVISION: Final = ConfigDef(
    Key(
        name=name, type=kind, default=None, validator=unless_null(check), importance=Importance.MEDIUM,
        doc=f"{doc} {_DEFAULT_NOTE}", group=_GROUP, order=6 + index, width=Width.SHORT, display_name=title,
        source="Kraal",
    )
    for index, (name, kind, check, title, doc, _) in enumerate(_DECLARATIONS)
)  # fmt: skip
"""Keys of connectors. Connect does not have these keys, so responses contain only the keys that are in the config."""

WORKER_SUPERVISION: Final = (
    *(
        Key(
            name=name, type=kind, default=default, validator=check, importance=Importance.MEDIUM,
            doc=f"{doc} Connectors can override it.", source="Kraal",
        )
        for name, kind, check, _, doc, default in _DECLARATIONS
    ),
    Key(
        name=STALL_TIMEOUT, type=ConfigType.LONG, default=60_000, importance=Importance.LOW,
        validator=between(0, _MAX_STALL_TIMEOUT_MS), source="Kraal",
        doc="Milliseconds without progress after which a task or connector is reported as stalled; its state does not "
        "change. Applies to each step of a running task, such as a batch or a commit; to the startup of a task or "
        "connector; to a sink that reads no records while its backlog grows; and to a sink without topics. "
        "0: no limit.",
    ),
)  # fmt: skip
"""Keys of workers, for automatic restarts and the detection of stalled tasks."""


def supervision_keys(config: Mapping[str, str | None]) -> list[Key]:
    """Return the keys for automatic restarts that a connector's config contains."""
    return [key for key in SUPERVISION if key.name in config]


def worker_policy(values: Mapping[str, object]) -> AutoRestart:
    """Return the policy of a worker's validated config."""
    return _override_policy(_DEFAULTS, values)


def parse_policy(config: Mapping[str, str | None], worker: AutoRestart) -> AutoRestart:
    """Return the effective policy of a connector. Never raises.

    Unresolved variables are ignored, and so are invalid values, which can only come from outside the REST API.
    """
    values: dict[str, object] = {}
    for key in SUPERVISION:
        raw = config.get(key.name)
        if raw is None:
            continue
        try:
            value = parse_value(key.name, raw, key.type)
        except ValueError:
            continue
        if key.validator is None or key.validator(key.name, value) is None:
            values[key.name] = value
    return _override_policy(worker, values) if values else worker


def _override_policy(policy: AutoRestart, values: Mapping[str, object]) -> AutoRestart:
    changes: dict[str, Any] = {}
    if (scope := values.get(AUTO_RESTART)) is not None:
        changes["scope"] = RestartScope(str(scope))
    if (max_restarts := values.get(AUTO_RESTART_MAX)) is not None:
        changes["max_restarts"] = int(str(max_restarts))
    if (window_ms := values.get(AUTO_RESTART_WINDOW)) is not None:
        changes["window_s"] = int(str(window_ms)) / 1000
    if (backoff_ms := values.get(AUTO_RESTART_BACKOFF)) is not None:
        changes["backoff_s"] = int(str(backoff_ms)) / 1000
    return replace(policy, **changes)
