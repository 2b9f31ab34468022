"""How a batch is carried out, and why: an executor's choice for each batch, reported with its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from typing_extensions import override

from kraal.engine.api import BatchDone
from kraal.engine.executor import JobLauncher, JobResult

W = TypeVar("W", bound=Enum)


@dataclass(frozen=True, slots=True)
class Choice(Generic[W]):
    """A way to carry out a batch, whose value is a description, and the reason for choosing it."""

    way: W
    why: str

    @override
    def __str__(self) -> str:
        return f"{self.way.value}: {self.why}"


def with_choice(launch: JobLauncher, choice: Choice[W]) -> JobLauncher:
    """Return a launcher that adds the choice to the batch's report."""

    def launch_noted(done: Callable[[JobResult], None]) -> None:
        launch(
            lambda outcome: done(
                replace(outcome, way=str(choice)) if isinstance(outcome, BatchDone) else outcome
            )
        )

    return launch_noted
