"""Runs checks side by side, each within a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kraal.core.printable import one_line
from kraal.doctor.broker import check_kafka
from kraal.doctor.finding import Finding, Level
from kraal.doctor.java import check_java
from kraal.doctor.listeners import check_listeners
from kraal.doctor.machine import check_machine
from kraal.doctor.plugins import check_plugins
from kraal.doctor.spark import check_spark
from kraal.doctor.subject import Subject

Check = Callable[[Subject], Iterable[Finding]]

LIMIT_S: Final = 30.0
CHECKS: Final[Mapping[str, Check]] = {
    "machine": check_machine,
    "java": check_java,
    "listeners": check_listeners,
    "broker": check_kafka,
    "plugins": check_plugins,
    "spark": check_spark,
}
"""Checks by name, in the order in which their findings are shown."""


def examine(
    subject: Subject, checks: Mapping[str, Check] = CHECKS, limit_s: float = LIMIT_S
) -> list[Finding]:
    """Return the findings of all checks; one that fails or takes more than `limit_s` seconds is a finding itself.

    Starts a thread for each check. A thread that exceeds the limit does not keep the process from ending.
    """
    found: dict[str, list[Finding]] = {name: [] for name in checks}

    def run(name: str, check: Check) -> None:
        try:
            for finding in check(subject):
                found[name].append(finding)
        except Exception as exc:  # noqa: BLE001 - one check must not keep the others from being shown
            found[name].append(_broken(f"The check of {name} failed: {one_line(repr(exc))}"))

    threads = {
        name: threading.Thread(target=run, args=(name, check), name=f"doctor {name}", daemon=True)
        for name, check in checks.items()
    }
    for thread in threads.values():
        thread.start()
    for name, thread in threads.items():
        thread.join(limit_s)
        if thread.is_alive():
            found[name] = [*found[name], _broken(f"The check of {name} took more than {limit_s:g} s")]
    return [finding for each in found.values() for finding in each]


def _broken(what: str) -> Finding:
    return Finding("doctor.check", Level.WARNING, what)
