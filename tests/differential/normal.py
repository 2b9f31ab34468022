"""Normalizes values that differ between runs of the same program: addresses, directories, times and orders."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from tests.differential.exchange import Placeholders, Response

_FRAMING: Final = frozenset({"date", "content-length", "transfer-encoding", "connection", "keep-alive"})
"""Headers of the connection, not of the response. A wrong length would appear as a truncated body."""

_TIME: Final = re.compile(r'("last_modified":)\d+')
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_TRACE: Final = re.compile(r'("trace":")((?:[^"\\]|\\.)*)"')
_FIRST_LINE_ENDS: Final = re.compile(r"\\[nr]")


def normalize(response: Response, placeholders: Placeholders) -> Response:
    """Return the response without values specific to the worker and the run."""
    headers = {
        name: placeholders.replace_values(value)
        for name, value in response.headers.items()
        if name not in _FRAMING
    }
    body = replace_times(shorten_traces(placeholders.replace_values(response.body)))
    return sort_methods(replace(response, headers=headers, body=body))


def sort_methods(response: Response) -> Response:
    """Sort the methods in the header `Allow`, and in a body that lists the same methods.

    Jersey collects them in a HashSet, in which PUT and PATCH have the same bucket. The order of these two is that of
    Java's reflection, which differs between runs of the same JVM (RuntimeResource, ModelProcessorUtil of Jersey).
    """
    allow = response.headers.get("allow")
    if allow is None:
        return response
    methods = sorted(allow.split(","))
    is_list = sorted(response.body.split(", ")) == methods
    return replace(
        response,
        headers={**response.headers, "allow": ",".join(methods)},
        body=", ".join(methods) if is_list else response.body,
    )


def replace_times(text: str) -> str:
    """Replace timestamps with a placeholder."""
    return _INSTANT.sub("TIME", _TIME.sub(r'\1"TIME"', text))


def shorten_traces(text: str) -> str:
    """Keep only the first line of each stack trace, because the other lines depend on the source code."""
    return _TRACE.sub(lambda match: f'{match[1]}{_FIRST_LINE_ENDS.split(match[2])[0]}"', text)
