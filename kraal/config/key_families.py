"""Families of keys: a fixed prefix, followed by names that users or other software choose."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All keys that start with `prefix`, which ends with a period."""

    prefix: str
    rest: str = "KEY"
    """The part after the prefix in the manual; words in capitals are placeholders."""
    doc: str
    no_effect: str = ""
    """The reason why the keys have no effect, as the end of a sentence; empty if they have an effect."""

    @property
    def name(self) -> str:
        """The family's name in the manual, such as `topic.creation.GROUP.SETTING`."""
        return self.prefix + self.rest

    @property
    def documentation(self) -> str:
        """The family's description for users."""
        return f"{self.doc} Has no effect: {self.no_effect}." if self.no_effect else self.doc
