"""Hooks for schemathesis: a check of all responses, and data that passes the first checks of the worker.

The settings in `schemathesis.toml` make schemathesis load this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.parameters import ParameterLocation
from schemathesis.openapi.checks import MissingContentType
from typing_extensions import override

from tests.fuzz import inputs
from tests.fuzz.response_checks import (
    SLOW_S,
    STATUSES_WITHOUT_CONTENT_TYPE,
    WorkerResponse,
    faults,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

_MAX_ATTEMPTS = 3
_KEY_CHARS = 20

_SEGMENTS: Mapping[str, SearchStrategy[Any]] = {
    "connector": inputs.names,
    "task": inputs.tasks,
    "plugin": st.sampled_from(inputs.PLUGINS[:-1]),
    "logger": inputs.loggers,
}
_BODIES: Mapping[str, SearchStrategy[Any]] = {
    "createConnector": inputs.create_requests,
    "putConnectorConfig": inputs.configs,
    "patchConnectorConfig": inputs.configs,
    "validatePluginConfig": inputs.configs,
    "putTaskConfigs": st.lists(inputs.configs, max_size=2),
    "alterConnectorOffsets": inputs.offsets,
    "setLoggerLevel": inputs.levels,
}


@schemathesis.hook
def before_generate_path_parameters(
    context: schemathesis.HookContext, strategy: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    """Generate mostly existing names."""
    if context.operation is None:
        return strategy
    parameters = {
        parameter.name: _SEGMENTS[parameter.name] for parameter in context.operation.path_parameters
    }
    return st.one_of(st.fixed_dictionaries(parameters), st.fixed_dictionaries(parameters), strategy)


@schemathesis.hook
def before_generate_body(
    context: schemathesis.HookContext, strategy: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    """Also generate almost valid bodies."""
    if context.operation is None:
        return strategy
    known_bodies = _BODIES.get(str(context.operation.definition.raw.get("operationId")))
    return strategy if known_bodies is None else st.one_of(known_bodies, strategy)


class FaultyResponse(Failure):
    """A response with faults. Faults of one operation whose messages have the same prefix are reported once."""

    kind_title = "Violated invariant of all responses"

    @property
    @override
    def _unique_key(self) -> str:
        return self.message[:_KEY_CHARS]


@schemathesis.check
def response_invariants(
    _ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """Check the invariants of all responses, and repeat slow requests."""
    elapsed_s, attempts = response.elapsed, 1
    while elapsed_s > SLOW_S and attempts < _MAX_ATTEMPTS:
        elapsed_s, attempts = case.call().elapsed, attempts + 1
    message = "; ".join(faults(_convert_response(response, elapsed_s)))
    if message:
        raise FaultyResponse(operation=case.operation.label, message=message)


def _convert_response(response: schemathesis.Response, elapsed_s: float) -> WorkerResponse:
    request = response.request
    return WorkerResponse(
        method=request.method or "",
        path=request.path_url.partition("?")[0],
        status=response.status_code,
        headers={name.lower(): values[0] for name, values in response.headers.items()},
        body=response.content,
        elapsed_s=elapsed_s,
    )


@schemathesis.hook
def filter_failure(
    _context: schemathesis.HookContext,
    failure: Failure,
    case: schemathesis.Case[Any],
    response: schemathesis.Response,
) -> bool:
    """Return whether to report a failure; failures that are Connect's intended behavior are not reported.

    As in Connect, any text is accepted as a flag or an expansion, and some errors have no Content-Type.
    """
    if isinstance(failure, MissingContentType):
        return response.status_code not in STATUSES_WITHOUT_CONTENT_TYPE
    if not isinstance(failure, AcceptedNegativeData) or case.meta is None:
        return True
    invalid_locations = {
        location for location, component in case.meta.components.items() if component.mode.is_negative
    }
    return not invalid_locations <= {ParameterLocation.QUERY}
