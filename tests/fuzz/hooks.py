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
from tests.fuzz.verdicts import BARE, HANGS_S, SLOW_S, Answer, faults

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
    """Name what there is, mostly."""
    if context.operation is None:
        return strategy
    wanted = {each.name: _SEGMENTS[each.name] for each in context.operation.path_parameters}
    return st.one_of(st.fixed_dictionaries(wanted), st.fixed_dictionaries(wanted), strategy)


@schemathesis.hook
def before_generate_body(
    context: schemathesis.HookContext, strategy: SearchStrategy[Any]
) -> SearchStrategy[Any]:
    """Send what is nearly right as well."""
    if context.operation is None:
        return strategy
    better = _BODIES.get(str(context.operation.definition.raw.get("operationId")))
    return strategy if better is None else st.one_of(better, strategy)


class Wrong(Failure):
    """An answer with faults; of each operation, those that start alike are one."""

    kind_title = "Not as all answers are"

    @property
    @override
    def _unique_key(self) -> str:
        return self.message[:_ALIKE]


@schemathesis.check
def kraals_answer(
    _ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """Hold an answer against what holds for all of them; what is slow is asked again."""
    elapsed_s, tries = response.elapsed, 1
    while SLOW_S < elapsed_s < HANGS_S and tries < _TRIES:
        elapsed_s, tries = case.call().elapsed, tries + 1
    found = "; ".join(faults(_answer(response, elapsed_s)))
    if found:
        raise Wrong(operation=case.operation.label, message=found)


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
    """Drop what Connect has on purpose.

    Any text is taken for a flag or an expansion, as in Connect, and some errors have no Content-Type.
    """
    if isinstance(failure, MissingContentType):
        return response.status_code not in BARE
    if not isinstance(failure, AcceptedNegativeData) or case.meta is None:
        return True
    wrong = {where for where, how in case.meta.components.items() if how.mode.is_negative}
    return not wrong <= {ParameterLocation.QUERY}
