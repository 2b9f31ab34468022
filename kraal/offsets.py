"""How far is read: Connect's pairs of JSON objects for sources, numbers in partitions of Kafka for sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Primitive = None | bool | int | float | str
"""What a partition's or offset's fields may hold."""

Offset = Mapping[str, Primitive]
"""How far a source partition was read: the plugin's own fields, e.g. `{"position": 4096}`."""


Shown = Sequence[tuple[Mapping[str, Primitive], Offset]]
"""Partitions and how far they are read, as REST shows them; a sink's, too."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A Kafka topic's partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class SourcePartition:
    """One partition of a source, e.g. `{"filename": "/var/log/app"}`.

    Equal whatever the order of its fields, as with Java's maps; `fields` keeps the order it was made with,
    because that order decides the bytes of the offset store's key.
    """

    fields: tuple[tuple[str, Primitive], ...] = field(compare=False)
    _sorted: tuple[tuple[str, str], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sorted", tuple(sorted((k, repr(v)) for k, v in self.fields)))

    @staticmethod
    def of(fields: Mapping[str, Primitive]) -> SourcePartition:
        """Make one from a mapping, keeping its order."""
        return SourcePartition(tuple(fields.items()))

    def as_dict(self) -> dict[str, Primitive]:
        """Return the fields as a new dict, in their order."""
        return dict(self.fields)
