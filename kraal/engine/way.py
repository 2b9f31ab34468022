"""The method by which an executor processes a batch, and the reason for it; reported with the batch's result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from typing_extensions import override

W = TypeVar("W", bound=Enum)


@dataclass(frozen=True, slots=True)
class Choice(Generic[W]):
    """The chosen method of processing a batch, and the reason. The value of the enum member describes the method."""

    way: W
    why: str

    @override
    def __str__(self) -> str:
        return f"{self.way.value}: {self.why}"
