"""Tests that JSON is encoded as Java Connect encodes it."""

from __future__ import annotations

from web.rendering import to_json


def test_supplementary_characters_are_escaped_as_surrogate_pairs() -> None:
    assert to_json({"é雪": "🦓"}) == '{"é雪":"\\uD83E\\uDD93"}'.encode()


def test_other_characters_are_not_escaped() -> None:
    assert to_json(["\ufffd", "a"]) == '["\ufffd","a"]'.encode()
