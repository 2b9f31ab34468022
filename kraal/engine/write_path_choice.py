"""The write path that an executor chooses for a batch, and the reason; reported with the result of the batch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from typing_extensions import override

PathT = TypeVar("PathT", bound=Enum)


@dataclass(frozen=True, slots=True)
class Choice(Generic[PathT]):
    """The write path chosen for a batch, and the reason. The value of the enum member describes the path."""

    write_path: PathT
    why: str

    @override
    def __str__(self) -> str:
        return f"{self.write_path.value}: {self.why}"
