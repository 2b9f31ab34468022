"""Texts of the journal: shortened to a number of bytes."""

from __future__ import annotations

from typing import Final

_MORE: Final = "…"


def cut(text: str, limit: int) -> str:
    """Return a text of at most `limit` bytes of UTF-8, which ends with `…` if something was cut off."""
    if len(text) * 4 <= limit:
        return text
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len(_MORE.encode())].decode("utf-8", "ignore") + _MORE
