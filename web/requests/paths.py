"""Raw paths: routing uses the undecoded path, and handlers decode single segments.

Servers decode a path before routing. A `%2F` in a connector name would thus become a separator, and a `%25` would start
another escape. The middleware therefore stores the undecoded path in `scope["path"]` for the route table.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kraal.core.errors import BadRequest, NotFound
from kraal.core.ids import ConnectorName, TaskId
from kraal.core.rest_requests import decode_segment, routed_path
from web.errors import jaxrs_error_text

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
    """Replace the decoded path of a request with the raw path, without a trailing slash."""
    scope["path"] = routed_path(scope["raw_path"])


def connector_name(request: Request) -> ConnectorName:
    """Return the connector name in the path."""
    return ConnectorName(decode_segment(request.path_params["connector"]))


def task_id(request: Request) -> TaskId:
    """Return the task id in the path. Raises NotFound if the task number is not a Java integer."""
    number = decode_segment(request.path_params["task"])
    if not _JAVA_INTEGER.fullmatch(number) or int(number) not in _JAVA_INTEGERS:
        raise NotFound(jaxrs_error_text(404))
    return TaskId(connector_name(request), int(number))


def plugin_name(request: Request) -> str:
    """Return the plugin name (a class or an alias) in the path."""
    return decode_segment(request.path_params["plugin"])


def nonnegative_integer(request: Request, parameter: str) -> int | None:
    """Return the value of an integer query parameter; None if it is missing. Raises BadRequest."""
    text = request.query_params.get(parameter)
    if text is None:
        return None
    if not _WHOLE_NUMBER.fullmatch(text):
        raise BadRequest(f"Invalid value {text} for query parameter {parameter}; expected a whole number")
    return int(text)


def integer_in_range(request: Request, parameter: str, interval: range) -> int | None:
    """Return the value of an integer query parameter within a range; None if it is missing. Raises BadRequest."""
    text = request.query_params.get(parameter)
    if text is None:
        return None
    if _DIGITS.fullmatch(text) and int(text) in interval:
        return int(text)
    raise BadRequest(
        f"Invalid {parameter} '{text[:_MAX_SHOWN]}'; expected a whole number from {interval[0]} to {interval[-1]}."
    )


def is_true(request: Request, parameter: str, *, default: bool = False) -> bool:
    """Parse a boolean query parameter: True for `true` in any case, `default` if missing, otherwise False."""
    text = request.query_params.get(parameter)
    return text.lower() == "true" if text else default
