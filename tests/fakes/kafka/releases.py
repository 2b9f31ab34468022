"""Jars of the run's broker and Java workers; `--release` chooses those of another release of Kafka."""

from __future__ import annotations

import os
from typing import Final

from kraal.jars.lock import JAVA_WORKERS, RELEASES
from kraal.testing.process import Answer
from scripts.harness.java_connect import CURRENT

VARIABLE: Final = "KRAAL_TEST_RELEASE"
"""Set by tests/run/releases.py; processes of a run inherit it."""
_WITHOUT_VERSIONS: Final = ("3.9", "4.0")
"""Releases whose statuses have no versions of plugins (KIP-891)."""


def broker_jars() -> str:
    """Return the group of jars of the run's broker."""
    release = os.environ.get(VARIABLE)
    return JAVA_WORKERS[RELEASES[release]] if release else "broker"


def worker_version() -> str:
    """Return the version of the run's Java workers."""
    release = os.environ.get(VARIABLE)
    return RELEASES[release] if release else CURRENT


def comparable(answer: Answer, release: str | None = None) -> tuple[int, object]:
    """Return status and body of an answer without what Java workers of a release, by default the run's, lack."""
    earlier = (release or os.environ.get(VARIABLE)) in _WITHOUT_VERSIONS
    return answer.status, _without_versions(answer.body) if earlier else answer.body


def _without_versions(body: object) -> object:
    if isinstance(body, list):
        return [_without_versions(each) for each in body]
    if isinstance(body, dict):
        return {key: _without_versions(value) for key, value in body.items() if key != "version"}
    return body
