"""Calls of plugin code. Every error is raised as PluginFailed, with the root cause first and without secrets."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from actors.runtime.shared_threads import blocking
from kraal.core.errors import PluginFailed, Unavailable
from kraal.core.secrets import secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

TRACE_LIMIT = 20_000
"""Maximum length of a trace in characters, to keep status records small."""


def format_trace(error: BaseException) -> str:
    """Return a readable trace: the root cause on the first line, then the stack."""
    if isinstance(error, PluginFailed):
        return secrets.scrub(error.trace)[:TRACE_LIMIT]
    root = error
    while (cause := root.__cause__ or root.__context__) is not None:
        root = cause
    first_line = f"{type(root).__name__}: {root}"
    return secrets.scrub(f"{first_line}\n{''.join(traceback.format_exception(error))}")[:TRACE_LIMIT]


@contextmanager
def plugin_code(action: str) -> Iterator[None]:
    """Convert any error of plugin code, which may block, to PluginFailed. `action`: prefix of the error message."""
    try:
        with blocking():
            yield
    except PluginFailed as exc:  # from a Java plugin, with its own trace
        raise PluginFailed(secrets.scrub(f"{action}: {exc}"), secrets.scrub(exc.trace)[:TRACE_LIMIT]) from exc
    except BaseException as exc:
        message = secrets.scrub(f"{action}: {exc if isinstance(exc, Unavailable) else repr(exc)}")
        raise PluginFailed(message, format_trace(exc)) from exc
