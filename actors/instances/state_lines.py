"""Reports and log lines about the states of connectors and tasks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from urllib.parse import quote

from actors.messages.herder import InstanceChanged
from kraal.core.ids import State, TaskId
from kraal.core.logging import use_subject
from kraal.core.printable import printable
from kraal.core.secrets import secrets
from kraal.core.traces import MAX_LENGTH, root_cause

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.runtime.mailbox import Address
    from kraal.cluster.state.wanted_work import Incarnation
    from kraal.core.ids import Instance

log = logging.getLogger(__name__)


class StateReports:
    """Reports the states of one incarnation of an instance to the worker. Used on its actor's thread only."""

    def __init__(
        self,
        instance: Instance,
        incarnation: Incarnation,
        worker: Address,
        *,
        version: str | None = None,
        record: Callable[[State], None] = lambda _: None,
    ) -> None:
        """`version`: version of the plugin; `record` is called with each reported state."""
        self._instance, self._incarnation, self._worker = instance, incarnation, worker
        self.version, self._record = version, record
        self.last: InstanceChanged | None = None
        """The last report."""

    def send(
        self, state: State, trace: str | None = None, *, stopped: bool = False, recovers: bool = False
    ) -> InstanceChanged:
        """Report and log a state; return the report."""
        report = InstanceChanged(
            instance=self._instance,
            incarnation=self._incarnation,
            state=state,
            trace=None if trace is None else secrets.scrub(trace),
            version=self.version,
            stopped=stopped,
            recovers=recovers,
        )
        self._record(state)
        log_change(self.last, report)
        self.last = report
        self._worker.tell(report)
        return report

    def repeat(self) -> None:
        """Repeat the last report, if any."""
        if self.last is not None:
            self._worker.tell(self.last)


def log_change(before: InstanceChanged | None, after: InstanceChanged) -> None:
    """Log the state of an instance in the instance's log context. An unchanged state is logged only if it is FAILED."""
    if after.state is State.FAILED and not after.stopped:
        log_failure(after.instance, after.trace or "", recovers=after.recovers)
        return
    if before is not None and (before.state, before.trace) == (after.state, after.trace):
        return
    kind = _kind(after.instance)
    with use_subject(f"{kind} {after.instance}"):
        if after.stopped:
            log.info("%s %s has stopped", kind.title(), after.instance)
        elif after.trace is None:
            log.info("%s %s is %s", kind.title(), after.instance, after.state)
        else:
            log.info("%s %s is %s: %s", kind.title(), after.instance, after.state, printable(after.trace))


def log_failure(instance: Instance, trace: str, *, recovers: bool = False) -> None:
    """Log the failure of an instance in the instance's log context.

    `recovers`: log a warning in place of an error, because the instance resumes without a restart.
    """
    cause = printable(root_cause(secrets.scrub(trace), MAX_LENGTH)).rstrip(".: ")
    kind = _kind(instance)
    with use_subject(f"{kind} {instance}"):
        if recovers:
            log.warning(
                "%s %s was interrupted and will resume automatically: %s", kind.title(), instance, cause
            )
            return
        log.error(
            "%s %s failed: %s. It stays FAILED until it is restarted (POST %s/restart); see its status for the trace",
            *(kind.title(), instance, cause, _path(instance)),
        )


def _kind(instance: Instance) -> str:
    return "task" if isinstance(instance, TaskId) else "connector"


def _path(instance: Instance) -> str:
    if isinstance(instance, TaskId):
        return f"{_path(instance.connector)}/tasks/{instance.task}"
    return f"/connectors/{quote(instance, safe='')}"
