"""Log lines about failed connectors and tasks: what failed, why, and what to do. Java's workers log such lines, too."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import quote

from kraal.core.ids import TaskId
from kraal.core.logging import working_for
from kraal.core.printable import printable
from kraal.core.secrets import secrets
from kraal.core.traces import LONGEST, root_cause

if TYPE_CHECKING:
    from kraal.core.ids import Instance

log = logging.getLogger(__name__)


def log_failure(instance: Instance, trace: str, *, recovers: bool = False) -> None:
    """Log that an instance has failed, as a line of that instance. `recovers`: it continues without a restart."""
    cause = printable(root_cause(secrets.scrub(trace), LONGEST)).rstrip(".: ")
    if isinstance(instance, TaskId):
        kind, path = "task", f"{_path(instance.connector)}/tasks/{instance.task}"
    else:
        kind, path = "connector", _path(instance)
    with working_for(f"{kind} {instance}"):
        if recovers:
            log.warning("%s %s is interrupted and will continue by itself: %s", kind.title(), instance, cause)
            return
        log.error(
            "%s %s failed: %s. It stays FAILED until it is restarted (POST %s/restart); its status has the whole trace",
            *(kind.title(), instance, cause, path),
        )


def _path(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"
