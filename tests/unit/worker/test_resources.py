"""The limit of open files that a worker sets for itself."""

from __future__ import annotations

import resource

import pytest

from kraal.worker.resources import MOST_FILES, files_allowed, open_as_many_as_allowed

UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "reached"),
    [
        (1024, 4096, 4096),
        (1024, MOST_FILES + 1, MOST_FILES),
        (1024, UNLIMITED, MOST_FILES),
        (MOST_FILES + 1, UNLIMITED, MOST_FILES + 1),
        (UNLIMITED, UNLIMITED, UNLIMITED),
    ],
)
def test_the_soft_limit_rises_to_the_hard_one_and_never_falls(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, reached: int
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr("kraal.worker.resources.resource.getrlimit", lambda _: limits[-1])
    monkeypatch.setattr("kraal.worker.resources.resource.setrlimit", lambda _, wanted: limits.append(wanted))
    open_as_many_as_allowed()
    assert (files_allowed(soft, hard), limits[-1]) == (reached, (reached, hard))
