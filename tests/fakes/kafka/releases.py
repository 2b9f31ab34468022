"""Jars of the broker and Java workers of a test run; `--release` selects another Kafka release."""

from __future__ import annotations

import os
from typing import Final

from kraal.jars.lock import JAVA_WORKERS, RELEASES
from kraal.testing.process import Answer
from scripts.harness.java_connect import CURRENT

VARIABLE: Final = "KRAAL_TEST_RELEASE"
"""Environment variable that tests/run/releases.py sets and all processes of a run inherit."""
_WITHOUT_VERSIONS: Final = ("3.9", "4.0")
"""Releases whose statuses do not contain plugin versions (KIP-891)."""


def broker_jars() -> str:
    """Return the group of jars of the broker."""
    release = os.environ.get(VARIABLE)
    return JAVA_WORKERS[RELEASES[release]] if release else "broker"


def worker_version() -> str:
    """Return the version of the Java workers."""
    release = os.environ.get(VARIABLE)
    return RELEASES[release] if release else CURRENT


def make_comparable(response: Answer, release: str | None = None) -> tuple[int, object]:
    """Return the status and body of a response without fields that Java workers of a release do not have."""
    lacks_versions = (release or os.environ.get(VARIABLE)) in _WITHOUT_VERSIONS
    return response.status, _without_versions(response.body) if lacks_versions else response.body


def _without_versions(body: object) -> object:
    if isinstance(body, list):
        return [_without_versions(item) for item in body]
    if isinstance(body, dict):
        return {key: _without_versions(value) for key, value in body.items() if key != "version"}
    return body
