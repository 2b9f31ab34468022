"""Raw paths: routing uses the undecoded path, and handlers decode the names in it once.

Servers decode a path before routing, which turns the `%2F` in a connector's name into a separator and `%25` into the
start of another escape. The middleware therefore puts the undecoded path into `scope["path"]`, the route table
matches it, and the functions here decode single segments.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kraal.core.errors import BadRequest, NotFound
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.rest_requests import decode_segment, routed_path
from web.errors import library_text

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Scope

_JAVA_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_WHOLE_NUMBER = re.compile(r"[0-9]{1,15}")
_JAVA_INTEGERS = range(-(2**31), 2**31)
_DIGITS = re.compile(r"[0-9]{1,16}")
_MAX_SHOWN = 100
"""Maximum length of an invalid value in an error, in characters."""


def use_raw_path(scope: Scope) -> None:
    """Replace the decoded path of a request by the raw path without a trailing slash."""
    scope["path"] = routed_path(scope["raw_path"])


def connector_name(request: Request) -> ConnectorName:
    """Return the connector in the path."""
    return ConnectorName(decode_segment(request.path_params["connector"]))


def task_id(request: Request) -> TaskId:
    """Return the task in the path. Raises NotFound when its number is not a Java integer."""
    number = decode_segment(request.path_params["task"])
    if not _JAVA_INTEGER.fullmatch(number) or int(number) not in _JAVA_INTEGERS:
        raise NotFound(library_text(404))
    return TaskId(connector_name(request), int(number))


def plugin_name(request: Request) -> str:
    """Return the plugin in the path, by class or alias."""
    return decode_segment(request.path_params["plugin"])


def whole_number(request: Request, parameter: str) -> int | None:
    """Read a query parameter; None if it is missing. Raises BadRequest."""
    text = request.query_params.get(parameter)
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text):
        raise BadRequest(f"Invalid value {text} for query parameter {parameter}; expected a whole number")
    return int(text)


def number_in(request: Request, parameter: str, allowed: range) -> int | None:
    """Read a query parameter that is a whole number; None: it is missing. Raises BadRequest."""
    text = request.query_params.get(parameter)
    if text is None:
        return None
    if _DIGITS.fullmatch(text) and int(text) in allowed:
        return int(text)
    raise BadRequest(
        f"Invalid {parameter} '{text[:_MAX_SHOWN]}'; allowed are whole numbers from {allowed[0]} to {allowed[-1]}."
    )


def is_true(request: Request, parameter: str, *, default: bool = False) -> bool:
    """Read a query parameter: `true` in any letter case is True, a missing value the default, anything else False."""
    text = request.query_params.get(parameter)
    return text.lower() == "true" if text else default
