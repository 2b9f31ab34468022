"""Intended differences between Java's and Kraal's responses.

Each allowance names the row of docs/compat.md that documents it. An allowance is a pure function that removes one kind
of difference from two responses, and returns them unchanged if they differ in another way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.differential.exchange import STANDALONE, Response

Pair = tuple[Response, Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """A difference that a row of docs/compat.md allows in a step."""

    row: str
    forgive: Callable[[Response, Response], Pair]
    is_random: bool = False
    """Whether the difference depends on a hash order or a race, and may therefore be absent."""
    only: str = ""
    """The mode to which the allowance applies, or an empty string for both modes."""


def in_standalone(allowance: Allowance) -> Allowance:
    """Restrict an allowance to standalone mode."""
    return replace(allowance, only=STANDALONE)


def error(row: str, java: int, kraal: int) -> Allowance:
    """Allow error responses with the statuses `java` and `kraal`, with any messages; the headers must be equal."""

    def forgive(expected: Response, actual: Response) -> Pair:
        are_errors = expected.message is not None and actual.message not in (None, "", "None")
        if (expected.status, actual.status) != (java, kraal) or not are_errors:
            return expected, actual
        return replace(expected, status=kraal, reason=actual.reason, body=actual.body), actual

    return Allowance(row=row, forgive=forgive)


def whole(row: str, java: int, kraal: int) -> Allowance:
    """Allow responses with the statuses `java` and `kraal` to differ in any way."""

    def forgive(expected: Response, actual: Response) -> Pair:
        return (actual, actual) if (expected.status, actual.status) == (java, kraal) else (expected, actual)

    return Allowance(row=row, forgive=forgive)


def status(row: str, java: int, kraal: int) -> Allowance:
    """Allow the HTTP status, and `error_code` in an error body, to be `kraal` instead of `java`.

    Everything else must be equal.
    """

    def forgive(expected: Response, actual: Response) -> Pair:
        if (expected.status, actual.status) != (java, kraal):
            return expected, actual
        body = expected.body.replace(f'{{"error_code":{java},', f'{{"error_code":{kraal},', 1)
        return replace(expected, status=kraal, reason=actual.reason, body=body), actual

    return Allowance(row=row, forgive=forgive)


def header(row: str, name: str, *, is_random: bool = False) -> Allowance:
    """Allow a header to differ or to be absent from one response."""

    def forgive(expected: Response, actual: Response) -> Pair:
        return _remove_header(expected, name), _remove_header(actual, name)

    return Allowance(row=row, forgive=forgive, is_random=is_random)


def _remove_header(response: Response, name: str) -> Response:
    return replace(
        response, headers={key: value for key, value in response.headers.items() if key != name.lower()}
    )


def fields(row: str, *names: str, is_random: bool = False) -> Allowance:
    """Allow different values of these fields at any depth; both responses must have them at the same paths."""
    return of_json(row, lambda value: _mask(value, names), is_random=is_random)


def _mask(value: Any, names: Iterable[str]) -> Any:
    match value:
        case dict():
            return {key: "…" if key in names else _mask(item, names) for key, item in value.items()}
        case list():
            return [_mask(item, names) for item in value]
        case _:
            return value


def only_kraal_has(row: str, field: str) -> Allowance:
    """Allow a field that only Kraal's response has, at any depth."""

    def forgive(expected: Response, actual: Response) -> Pair:
        if actual.json is None or field in expected.body:
            return expected, actual
        return expected, _with_json(actual, _without_field(actual.json, field))

    return Allowance(row=row, forgive=forgive)


def _without_field(value: Any, field: str) -> Any:
    match value:
        case dict():
            return {key: _without_field(item, field) for key, item in value.items() if key != field}
        case list():
            return [_without_field(item, field) for item in value]
        case _:
            return value


def in_any_order(row: str, *below: str) -> Allowance:
    """Allow another order of array items; `below` names the fields that contain the arrays (default: all)."""
    return of_json(row, lambda value: _sort_arrays(value, below, inside=not below), is_random=True)


def _sort_arrays(value: Any, below: tuple[str, ...], *, inside: bool) -> Any:
    match value:
        case dict():
            return {
                key: _sort_arrays(item, below, inside=not below or key in below)
                for key, item in value.items()
            }
        case list():
            items = [_sort_arrays(item, below, inside=inside and not below) for item in value]
            return sorted(items, key=json.dumps) if inside else items
        case _:
            return value


def offsets_in_any_order(row: str) -> Allowance:
    """Allow another order of the entries of `offsets`, and of the fields in their partitions and offsets."""

    def change(value: Any) -> Any:
        if not isinstance(value, dict) or "offsets" not in value:
            return value
        return {"offsets": sorted(json.dumps(entry, sort_keys=True) for entry in value["offsets"])}

    return of_json(row, change, is_random=True)


def of_json(row: str, change: Callable[[Any], Any], *, is_random: bool = False) -> Allowance:
    """Allow JSON bodies that are equal after the conversion `change`."""

    def forgive(expected: Response, actual: Response) -> Pair:
        if expected.json is None or actual.json is None:
            return expected, actual
        return _with_json(expected, change(expected.json)), _with_json(actual, change(actual.json))

    return Allowance(row=row, forgive=forgive, is_random=is_random)


LIST_ORDER = of_json(
    "list-order",
    lambda value: sorted(value) if isinstance(value, list) else dict(sorted(value.items())),
    is_random=True,
)
"""Allows another order of connectors in lists of names and in expanded lists."""


def of_text(row: str, change: Callable[[str], str], *, is_random: bool = False) -> Allowance:
    """Allow bodies that are equal after the conversion `change`."""

    def forgive(expected: Response, actual: Response) -> Pair:
        return replace(expected, body=change(expected.body)), replace(actual, body=change(actual.body))

    return Allowance(row=row, forgive=forgive, is_random=is_random)


def _with_json(response: Response, value: Any) -> Response:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return replace(response, body=body)


KRAAL_PREFIXES = ("kraal.", "io.confluent.", "org.apache.kafka.connect.tools.")
"""Prefixes of the class names of plugins that Kraal includes and Kafka does not."""
_PLUGIN_DESC = re.compile(r"PluginDesc\{klass=class ([^,]+), [^}]*\}(?:, )?")


def missing_plugins(row: str, *types: str) -> Allowance:
    """Allow plugins of these types that only Java has. All other plugins must be listed in the same order."""

    def forgive(expected: Response, actual: Response) -> Pair:
        if not isinstance(expected.json, list) or not isinstance(actual.json, list):
            return expected, actual
        kraal_classes = {plugin["class"] for plugin in actual.json}
        compared_plugins = [
            plugin
            for plugin in expected.json
            if plugin["class"] in kraal_classes or plugin["type"] not in types
        ]
        return _with_json(expected, compared_plugins), _with_json(actual, actual.json)

    return Allowance(row=row, forgive=forgive)


def missing_in_text(row: str) -> Allowance:
    """Allow plugins that only Java has in an error message that lists all plugins."""

    def forgive(expected: Response, actual: Response) -> Pair:
        kraal_classes = {matched[1] for matched in _PLUGIN_DESC.finditer(actual.body)}
        body = _PLUGIN_DESC.sub(
            lambda matched: matched[0] if matched[1] in kraal_classes else "", expected.body
        )
        return replace(expected, body=body.replace(', "}', '"}')), actual

    return Allowance(row=row, forgive=forgive)


def own_plugins(row: str) -> Allowance:
    """Allow plugins that only Kraal has."""

    def is_kraal_plugin(plugin: Any) -> bool:
        return isinstance(plugin, dict) and str(plugin.get("class")).startswith(KRAAL_PREFIXES)

    def forgive(expected: Response, actual: Response) -> Pair:
        if isinstance(actual.json, list):
            return expected, _with_json(
                actual, [plugin for plugin in actual.json if not is_kraal_plugin(plugin)]
            )
        body = _PLUGIN_DESC.sub(
            lambda matched: "" if matched[1].startswith(KRAAL_PREFIXES) else matched[0], actual.body
        )
        return expected, replace(actual, body=body.replace(', "}', '"}'))

    return Allowance(row=row, forgive=forgive)


def keys_in_any_order(row: str) -> Allowance:
    """Allow another order of the groups and keys in a validation response."""

    def change(infos: Any) -> Any:
        if not isinstance(infos, dict) or "configs" not in infos:
            return infos
        configs = sorted(infos["configs"], key=lambda info: str(info["value"]["name"]))
        return {**infos, "groups": sorted(infos["groups"]), "configs": configs}

    return of_json(row, change, is_random=True)


def config_in_any_order(row: str) -> Allowance:
    """Allow another order of the keys in connector configs."""
    return of_json(row, _with_sorted_configs, is_random=True)


def _with_sorted_configs(value: Any) -> Any:
    match value:
        case {"connector.class": _}:
            return dict(sorted(value.items()))
        case dict():
            return {key: _with_sorted_configs(item) for key, item in value.items()}
        case list():
            return [_with_sorted_configs(item) for item in value]
        case _:
            return value


VERSIONS = fields("plugin-versions", "version", is_random=True)
"""Allows different versions, because Java sometimes returns a null version after several concurrent restarts."""
TASKS_LATER = fields("put-creates", "tasks", is_random=True)
"""Allows different tasks, because a PUT that creates a connector may respond before the tasks exist."""
