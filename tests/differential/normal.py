"""What may differ between two runs of one program: addresses, directories, times. Pure functions of answers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tests.differential.exchange import Answer, Here

_FRAMING: Final = frozenset({"date", "content-length", "transfer-encoding", "connection", "keep-alive"})
"""Headers about the connection, not about the answer. A wrong length shows as a cut body."""

_TIME: Final = re.compile(r'("last_modified":)\d+')
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_TRACE: Final = re.compile(r'("trace":")((?:[^"\\]|\\.)*)"')
_FIRST_LINE_ENDS: Final = re.compile(r"\\[nr]")


def normal(answer: Answer, here: Here) -> Answer:
    """Return the answer as any worker that does the same would give it."""
    headers = {name: here.take_out(value) for name, value in answer.headers.items() if name not in _FRAMING}
    return replace(answer, headers=headers, body=timeless(short_traces(here.take_out(answer.body))))


def timeless(text: str) -> str:
    """Take out points in time."""
    return _INSTANT.sub("TIME", _TIME.sub(r'\1"TIME"', text))


def short_traces(text: str) -> str:
    """Keep the first line of each stack trace: the others name lines of code."""
    return _TRACE.sub(lambda found: f'{found[1]}{_FIRST_LINE_ENDS.split(found[2])[0]}"', text)
