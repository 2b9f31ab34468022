"""Reader for a standalone worker's connector files.

A file contains flat JSON, a create request or properties. These formats are tried in this order, regardless of the
file's name.
Source: KIP-980; ConnectStandalone.parseConnectorConfigurationFile (Kafka 4.4.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kraal.config.connector.json_fields import Number, config_text, parse_offset_pairs
from kraal.config.connector.keys import NAME
from kraal.config.properties_file import parse_properties, read_text
from kraal.core.errors import BadRequest
from kraal.core.ids import Config, ConnectorName, TargetState
from kraal.core.offsets import Pair

_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorFile:
    """The content of a connector file: name, config, initial state and initial offsets of a connector."""

    name: ConnectorName
    config: Config
    initial_state: TargetState | None
    """The initial state, which is applied only if the connector is new; None if it is not set."""
    initial_offsets: Sequence[Pair] | None = None
    """The initial offsets, which are applied only if the connector is new; None if they are not set."""


def parse_initial_state(text: str) -> TargetState:
    """Parse the value of `initial_state`, ignoring case. Raises BadRequest with the allowed states."""
    state = _STATES.get(text.upper())
    if state is None:
        allowed_states = ", ".join(_STATES)
        raise BadRequest(
            f"Invalid value {text} for initial_state: it must be one of {allowed_states} (in any letter case)."
        )
    return state


def read_connector_file(path: str | Path) -> ConnectorFile:
    """Read a connector file. Raises BadRequest with a message that contains the path."""
    return parse_connector_file(read_text(path, "connector configuration"), path)


def parse_connector_file(text: str, path: str | Path) -> ConnectorFile:
    """Parse the text of a connector file; `path` appears in error messages. Raises BadRequest."""
    json_error = ""
    try:
        # As in Java, numbers keep their text: 1.50 stays 1.50.
        content = json.loads(text, parse_float=Number, parse_int=Number, parse_constant=Number)
    except ValueError as exc:
        content, json_error = None, f" (it looks like JSON, but is not valid JSON: {exc})"
    except RecursionError:
        content, json_error = None, " (it looks like JSON, but is nested too deeply)"
    if isinstance(content, dict):
        flat_config = _parse_flat_config(content)
        if flat_config is not None:
            return _make_file(flat_config, path, "")
        if "config" in content:
            return _parse_create_request(content, path)
        raise BadRequest(
            f"Connector configuration at '{path}': {_describe_nested(content)}, "
            "or the file must have the fields 'name' and 'config'"
        )
    config = parse_properties(text, path, "connector configuration")
    return _make_file(config, path, json_error if text.lstrip().startswith("{") else "")


def _parse_flat_config(content: Mapping[str, object]) -> dict[str, str | None] | None:
    """Return the values of an object as strings; None if any value is an object or an array."""
    if any(isinstance(value, (dict, list)) for value in content.values()):
        return None
    return {key: config_text(value) for key, value in content.items()}


def _describe_nested(content: Mapping[str, object]) -> str:
    """Describe the first value that is an object or an array, for an error message."""
    key, value = next(entry for entry in content.items() if isinstance(entry[1], (dict, list)))
    kind = "an array" if isinstance(value, list) else "an object"
    return f"the value of '{key}' is {kind}; values must be strings (a list is one string: \"a,b\")"


def _make_file(config: Mapping[str, str | None], path: str | Path, remark: str) -> ConnectorFile:
    name = config.get(NAME)
    if name is None:
        raise BadRequest(
            f"Connector configuration at '{path}' is missing the mandatory 'name' configuration{remark}"
        )
    return ConnectorFile(name=ConnectorName(name), config=dict(config), initial_state=None)


def _parse_create_request(content: Mapping[str, object], path: str | Path) -> ConnectorFile:
    """Parse the body of `POST /connectors`; unknown fields are ignored."""
    config_object = content["config"]
    config = _parse_flat_config(config_object) if isinstance(config_object, dict) else None
    if config is None:
        reason = (
            _describe_nested(config_object)
            if isinstance(config_object, dict)
            else "'config' is not an object"
        )
        raise BadRequest(f"Connector configuration at '{path}': {reason}")
    name = config_text(content.get(NAME))
    if name is None or isinstance(content.get(NAME), (dict, list)):
        raise BadRequest(f"Connector configuration at '{path}' is missing the mandatory 'name' configuration")
    if config.setdefault(NAME, name) != name:
        raise BadRequest(
            f"Connector name configuration in 'config' doesn't match the one specified in 'name' at '{path}'"
        )
    state, offsets = content.get("initial_state"), content.get("initial_offsets")
    try:
        initial_state = None if state is None else parse_initial_state(str(state).strip())
        initial_offsets = None if offsets is None else parse_offset_pairs(offsets, "initial_offsets")
    except BadRequest as exc:
        raise BadRequest(f"Connector configuration at '{path}': {exc}") from exc
    return ConnectorFile(
        name=ConnectorName(name),
        config=config,
        initial_state=initial_state,
        initial_offsets=initial_offsets,
    )
