"""How a batch is carried out, and why: an executor's choice for each batch, reported with its result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from typing_extensions import override

W = TypeVar("W", bound=Enum)


@dataclass(frozen=True, slots=True)
class Choice(Generic[W]):
    """A way to carry out a batch, whose value is a description, and the reason for choosing it."""

    way: W
    why: str

    @override
    def __str__(self) -> str:
        return f"{self.way.value}: {self.why}"
