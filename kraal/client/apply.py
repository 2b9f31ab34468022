"""Applies connector files to a worker: creates, updates and optionally deletes connectors.

Applying is idempotent: a second run finds everything unchanged. A rejected connector does not prevent the others from
being applied; an unreachable worker does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from kraal.client.manifests import Manifest
from kraal.client.plan import Action, action_for
from kraal.client.rest import NoResponse, RequestRejected, Rest
from kraal.config.connector.keys import CONNECTOR_CLASS
from kraal.config.hidden import scrub
from kraal.core.ids import Config
from kraal.core.printable import join_lines

_INVALID_CONFIG = "Connector configuration is invalid and contains the following"
_PLUGIN_DESC = re.compile(r"PluginDesc\{klass=\w+ [\w.$]+, name='([^']*)'[^}]*\}")
_TRAILER = "You can also find the above list of errors"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of applying one connector. `error` is a single line; None unless the action is FAILED."""

    name: str
    action: Action
    file_name: str
    error: str | None = None
    hint: str = ""


class LiveConfigs:
    """Connector configs of a worker, requested on demand."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self.names: list[str] = rest.names()
        """Names of all connectors. They are requested first, so that a wrong URL is reported as an error."""

    def config(self, name: str) -> dict[str, str | None] | None:
        """Return a connector's config; None if the connector does not exist. Raises RequestRejected, NoResponse."""
        if name not in self.names:
            return None
        try:
            return dict(self._rest.get("connectors", name, "config"))
        except RequestRejected as error:
            if error.is_not_found:
                return None
            raise


class Secrets:
    """Config keys of type PASSWORD; the keys of each connector class are requested only once."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._cache: dict[str, frozenset[str]] = {}

    def keys_of(self, config: Config) -> frozenset[str]:
        """Return the secret keys declared by the connector class; empty if the worker does not return them."""
        plugin = config.get(CONNECTOR_CLASS)
        if not plugin:
            return frozenset()
        if plugin not in self._cache:
            self._cache[plugin] = self._fetch(plugin)
        return self._cache[plugin]

    def _fetch(self, plugin: str) -> frozenset[str]:
        try:
            keys = self._rest.get_list("connector-plugins", plugin, "config")
            return frozenset(key["name"] for key in keys if key["type"] == "PASSWORD")
        except (RequestRejected, NoResponse, KeyError, TypeError):
            return frozenset()  # secrets are still recognized by the names of their keys


def apply_all(
    rest: Rest, live_configs: LiveConfigs, manifests: Sequence[Manifest], *, dry_run: bool
) -> Iterator[Result]:
    """Apply the connectors one by one and yield the result of each. Raises Unreachable."""
    secrets = Secrets(rest)
    for manifest in manifests:
        try:
            config = live_configs.config(manifest.name)
            action = action_for(config, manifest.config)
            if action is not Action.UNCHANGED:
                if dry_run:
                    validate(rest, manifest.config)
                else:
                    action = _write(rest, manifest, action)
        except (RequestRejected, NoResponse) as error:
            yield Result(
                manifest.name,
                Action.FAILED,
                manifest.file_name,
                scrub(format_error(error), manifest.config, secrets.keys_of(manifest.config)),
                error.hint,
            )
        else:
            yield Result(manifest.name, action, manifest.file_name)


def prune(
    rest: Rest, live_configs: LiveConfigs, manifests: Sequence[Manifest], *, dry_run: bool
) -> Iterator[Result]:
    """Delete the connectors that are not in the files and yield the result of each. Raises Unreachable."""
    names_in_files = {manifest.name for manifest in manifests}
    for name in (name for name in live_configs.names if name not in names_in_files):
        try:
            if not dry_run:
                rest.ask("DELETE", "connectors", name)
        except (RequestRejected, NoResponse) as error:
            yield Result(name, Action.FAILED, "", format_error(error), error.hint)
        else:
            yield Result(name, Action.DELETED, "")


def validate(rest: Rest, config: Config) -> None:
    """Validate a config on the worker without storing it. Raises RequestRejected with all errors, NoResponse."""
    plugin = config.get(CONNECTOR_CLASS)
    if not plugin:
        text = f'Missing required configuration "{CONNECTOR_CLASS}" which has no default value.'
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text, text)
    response = rest.ask("PUT", "connector-plugins", plugin, "config", "validate", body=dict(config))
    errors = list(dict.fromkeys(_list_errors(response)))
    if errors:
        text = "; ".join(errors)
        raise RequestRejected(HTTPStatus.BAD_REQUEST, text, text)


def format_error(error: RequestRejected | NoResponse) -> str:
    """Format an error as one line, without duplicate validation errors and with class names in place of PluginDescs."""
    if isinstance(error, RequestRejected) and error.text.startswith(_INVALID_CONFIG):
        lines = [line for line in error.text.splitlines()[1:] if line and not line.startswith(_TRAILER)]
        return join_lines("; ".join(dict.fromkeys(lines)))
    return _PLUGIN_DESC.sub(r"\1", join_lines(str(error)))


def _write(rest: Rest, manifest: Manifest, action: Action) -> Action:
    """Create the connector or replace its config, tolerating concurrent creation; return the action."""
    initial_fields = _initial_fields(manifest)
    if action is Action.CREATED and initial_fields:
        body = {"name": manifest.name, "config": dict(manifest.config), **initial_fields}
        try:
            rest.ask("POST", "connectors", body=body)
        except RequestRejected as error:
            if error.status != HTTPStatus.CONFLICT or "already exists" not in error.text:
                raise
            action = Action.CONFIGURED
        else:
            return action
    rest.ask("PUT", "connectors", manifest.name, "config", body=dict(manifest.config))
    return action


def _initial_fields(manifest: Manifest) -> dict[str, Any]:
    """Return the request fields that apply only when the connector is created."""
    fields: dict[str, Any] = {}
    if manifest.initial_state is not None:
        fields["initial_state"] = manifest.initial_state
    if manifest.initial_offsets is not None:
        fields["initial_offsets"] = [{"partition": p, "offset": o} for p, o in manifest.initial_offsets]
    return fields


def _list_errors(response: Mapping[str, Any]) -> Iterator[str]:
    for config in response.get("configs", ()):
        yield from map(str, config["value"]["errors"])
