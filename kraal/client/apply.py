"""Apply connector files to a worker: create, update and optionally delete connectors.

Applying is idempotent: a second run finds everything unchanged. A rejected connector does not stop the others from
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
from kraal.client.rest import NoResponse, Refused, Rest
from kraal.config.connector.keys import CONNECTOR_CLASS
from kraal.config.hidden import scrub
from kraal.core.ids import Config
from kraal.core.printable import one_line

_INVALID = "Connector configuration is invalid and contains the following"
_PLUGIN = re.compile(r"PluginDesc\{klass=\w+ [\w.$]+, name='([^']*)'[^}]*\}")
_TRAILER = "You can also find the above list of errors"


@dataclass(frozen=True, slots=True)
class Result:
    """Result for one connector; `error` is one line, None unless the action is FAILED."""

    name: str
    action: Action
    where: str
    error: str | None = None
    hint: str = ""


class Live:
    """Connector configs of a worker, requested on demand."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self.names: list[str] = rest.names()
        """All connectors. Requested first, so that a wrong URL is an error instead of a worker without connectors."""

    def config(self, name: str) -> dict[str, str | None] | None:
        """Return a connector's config, None if the connector does not exist. Raises Refused, NoResponse."""
        if name not in self.names:
            return None
        try:
            return dict(self._rest.get("connectors", name, "config"))
        except Refused as error:
            if error.not_found:
                return None
            raise


class Secrets:
    """Keys of type PASSWORD for each connector class; requested once per class."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._cache: dict[str, frozenset[str]] = {}

    def of(self, config: Config) -> frozenset[str]:
        """Return the keys that the connector class declares as secrets; empty for a class unknown to the worker."""
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
        except (
            Refused,
            NoResponse,
            KeyError,
            TypeError,
        ):  # unknown class: secrets are still recognized by the names of keys
            return frozenset()


def apply_all(rest: Rest, live: Live, manifests: Sequence[Manifest], *, dry_run: bool) -> Iterator[Result]:
    """Apply the connectors one by one and yield the result of each. Raises Unreachable."""
    secrets = Secrets(rest)
    for each in manifests:
        try:
            config = live.config(each.name)
            action = action_for(config, each.config)
            if action is not Action.UNCHANGED:
                if dry_run:
                    validate(rest, each.config)
                else:
                    action = _write(rest, each, action)
        except (Refused, NoResponse) as error:
            yield Result(
                each.name,
                Action.FAILED,
                each.where,
                scrub(sentence(error), each.config, secrets.of(each.config)),
                error.hint,
            )
        else:
            yield Result(each.name, action, each.where)


def prune(rest: Rest, live: Live, manifests: Sequence[Manifest], *, dry_run: bool) -> Iterator[Result]:
    """Delete the connectors that are not in the files and yield the result of each. Raises Unreachable."""
    names_in_files = {each.name for each in manifests}
    for name in (name for name in live.names if name not in names_in_files):
        try:
            if not dry_run:
                rest.ask("DELETE", "connectors", name)
        except (Refused, NoResponse) as error:
            yield Result(name, Action.FAILED, "", sentence(error), error.hint)
        else:
            yield Result(name, Action.DELETED, "")


def validate(rest: Rest, config: Config) -> None:
    """Validate a config on the worker without storing it. Raises Refused with all errors, NoResponse."""
    plugin = config.get(CONNECTOR_CLASS)
    if not plugin:
        text = f'Missing required configuration "{CONNECTOR_CLASS}" which has no default value.'
        raise Refused(HTTPStatus.BAD_REQUEST, text, text)
    answer = rest.ask("PUT", "connector-plugins", plugin, "config", "validate", body=dict(config))
    errors = list(dict.fromkeys(_errors(answer)))
    if errors:
        text = "; ".join(errors)
        raise Refused(HTTPStatus.BAD_REQUEST, text, text)


def sentence(error: Refused | NoResponse) -> str:
    """Return an error as one line, without duplicate validation errors, and with class names only for plugins."""
    if isinstance(error, Refused) and error.text.startswith(_INVALID):
        lines = [line for line in error.text.splitlines()[1:] if line and not line.startswith(_TRAILER)]
        return one_line("; ".join(dict.fromkeys(lines)))
    return _PLUGIN.sub(r"\1", one_line(str(error)))


def _write(rest: Rest, manifest: Manifest, action: Action) -> Action:
    """Create the connector or replace its config, even if another client does the same; return the action."""
    initial = _initial(manifest)
    if action is Action.CREATED and initial:
        body = {"name": manifest.name, "config": dict(manifest.config), **initial}
        try:
            rest.ask("POST", "connectors", body=body)
        except Refused as error:
            if error.status != HTTPStatus.CONFLICT or "already exists" not in error.text:
                raise
            action = Action.CONFIGURED
        else:
            return action
    rest.ask("PUT", "connectors", manifest.name, "config", body=dict(manifest.config))
    return action


def _initial(manifest: Manifest) -> dict[str, Any]:
    """Return the request's fields that apply only when the connector is created."""
    fields: dict[str, Any] = {}
    if manifest.initial_state is not None:
        fields["initial_state"] = manifest.initial_state
    if manifest.initial_offsets is not None:
        fields["initial_offsets"] = [{"partition": p, "offset": o} for p, o in manifest.initial_offsets]
    return fields


def _errors(answer: Mapping[str, Any]) -> Iterator[str]:
    for each in answer.get("configs", ()):
        yield from map(str, each["value"]["errors"])
