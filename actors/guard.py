"""The border to code of plugins: whatever it raises becomes PluginFailed, root cause first, without secrets."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kraal.errors import PluginFailed
from kraal.secrets import secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACE_LIMIT = 20_000
"""Characters of a trace that are kept: a status record must stay small."""


def trace_of(error: BaseException) -> str:
    """Return a trace for people: the root cause on the first line, then where it came from."""
    root = error
    while (cause := root.__cause__ or root.__context__) is not None:
        root = cause
    first = f"{type(root).__name__}: {root}"
    return secrets.scrub(f"{first}\n{''.join(traceback.format_exception(error))}")[:TRACE_LIMIT]


@contextmanager
def plugin_code(doing: str) -> Iterator[None]:
    """Turn anything a plugin raises into PluginFailed; `doing` starts its message."""
    try:
        yield
    except BaseException as exc:
        message = secrets.scrub(f"{doing}: {exc!r}")
        raise PluginFailed(message, trace_of(exc)) from exc
