"""Families of keys: names that somebody else chooses, and that are known by how they begin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All keys that begin with `prefix`, which ends with a period."""

    prefix: str
    rest: str = "KEY"
    """What follows the prefix, as the manual writes it; capitals stand for what users choose."""
    doc: str
    no_effect: str = ""
    """Why these keys are accepted and do nothing, as the end of a sentence; empty: they do what they say."""

    @property
    def name(self) -> str:
        """The family as the manual writes it: `topic.creation.GROUP.include`."""
        return self.prefix + self.rest

    @property
    def documentation(self) -> str:
        """What users read of the family."""
        return f"{self.doc} Has no effect: {self.no_effect}." if self.no_effect else self.doc
