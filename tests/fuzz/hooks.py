"""What schemathesis is told next to our OpenAPI document: our own check, and data that gets past the first one.

Loaded by schemathesis, whose settings are in `schemathesis.toml` next to this file.
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
from tests.fuzz.verdicts import BARE, HANG_TIMEOUT_S, SLOW_S, Answer, faults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import SearchStrategy

_TRIES = 3
_ALIKE = 20

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
    wanted = {each.name: _SEGMENTS[each.name] for each in context.operation.path_parameters}
    return st.one_of(st.fixed_dictionaries(wanted), st.fixed_dictionaries(wanted), strategy)


@schemathesis.hook
def before_generate_body(
    context: schemathesis.HookContext, strategy: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    """Also generate almost valid bodies."""
    if context.operation is None:
        return strategy
    better = _BODIES.get(str(context.operation.definition.raw.get("operationId")))
    return strategy if better is None else st.one_of(better, strategy)


class FaultyResponse(Failure):
    """A response with faults; faults of an operation with the same prefix are reported once."""

    kind_title = "Violated invariant of all responses"

    @property
    @override
    def _unique_key(self) -> str:
        return self.message[:_ALIKE]


@schemathesis.check
def kraals_answer(
    _ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """Check the invariants of all responses; repeat slow requests."""
    elapsed_s, tries = response.elapsed, 1
    while SLOW_S < elapsed_s < HANG_TIMEOUT_S and tries < _TRIES:
        elapsed_s, tries = case.call().elapsed, tries + 1
    found = "; ".join(faults(_answer(response, elapsed_s)))
    if found:
        raise FaultyResponse(operation=case.operation.label, message=found)


def _answer(response: schemathesis.Response, took_s: float) -> Answer:
    request = response.request
    return Answer(
        method=request.method or "",
        path=request.path_url.partition("?")[0],
        status=response.status_code,
        headers={name.lower(): values[0] for name, values in response.headers.items()},
        body=response.content,
        took_s=took_s,
    )


@schemathesis.hook
def filter_failure(
    _context: schemathesis.HookContext,
    failure: Failure,
    case: schemathesis.Case[Any],
    response: schemathesis.Response,
) -> bool:
    """Drop failures that are Connect's intended behavior.

    As in Connect, any text is accepted as a flag or an expansion, and some errors have no Content-Type.
    """
    if isinstance(failure, MissingContentType):
        return response.status_code not in BARE
    if not isinstance(failure, AcceptedNegativeData) or case.meta is None:
        return True
    wrong = {where for where, how in case.meta.components.items() if how.mode.is_negative}
    return not wrong <= {ParameterLocation.QUERY}
