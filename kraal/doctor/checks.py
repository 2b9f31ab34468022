"""Checks of the machine and of a worker's properties file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from kraal.doctor.broker import check_kafka
from kraal.doctor.clock import check_clock
from kraal.doctor.finding import Finding
from kraal.doctor.installed import check_installed
from kraal.doctor.listeners import check_listeners
from kraal.doctor.machine import check_java, check_machine
from kraal.doctor.plugins import check_plugins
from kraal.doctor.run import Check
from kraal.doctor.spark import check_spark
from kraal.doctor.subject import Subject

_CHECKS: Final[Mapping[str, Callable[[Subject], Iterable[Finding]]]] = {
    "machine": check_machine,
    "clock": lambda _: check_clock(),
    "installation": lambda _: check_installed(),
    "java": lambda _: check_java(),
    "listeners": check_listeners,
    "broker": check_kafka,
    "plugins": check_plugins,
    "spark": check_spark,
}


def local_checks(subject: Subject) -> dict[str, Check]:
    """Return the checks of the machine and of a worker's properties file by name, in display order."""
    return {name: partial(check, subject) for name, check in _CHECKS.items()}
