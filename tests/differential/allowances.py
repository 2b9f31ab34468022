"""Intended differences. Each allowance names the row of docs/compat.md that documents it.

An allowance is a pure function that removes one kind of difference from two responses, and returns them unchanged if
they differ in another way.
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
    """A difference that a row of the page allows in a step."""

    row: str
    forgive: Callable[[Response, Response], Pair]
    chance: bool = False
    """Whether the difference may be absent, for hash orders and races."""
    only: str = ""
    """The mode to which it applies; empty for both."""


def in_standalone(allowance: Allowance) -> Allowance:
    """Restrict an allowance to standalone mode."""
    return replace(allowance, only=STANDALONE)


def error(row: str, java: int, kraal: int) -> Allowance:
    """Allow errors with these statuses and any messages; everything else must be equal."""

    def forgive(one: Response, other: Response) -> Pair:
        are_errors = one.message is not None and other.message not in (None, "", "None")
        if (one.status, other.status) != (java, kraal) or not are_errors:
            return one, other
        return replace(one, status=kraal, reason=other.reason, body=other.body), other

    return Allowance(row=row, forgive=forgive)


def whole(row: str, java: int, kraal: int) -> Allowance:
    """Allow responses with these statuses that differ in everything else."""

    def forgive(one: Response, other: Response) -> Pair:
        return (other, other) if (one.status, other.status) == (java, kraal) else (one, other)

    return Allowance(row=row, forgive=forgive)


def status(row: str, java: int, kraal: int) -> Allowance:
    """Allow these different statuses, also in the bodies of errors; everything else must be equal."""

    def forgive(one: Response, other: Response) -> Pair:
        if (one.status, other.status) != (java, kraal):
            return one, other
        body = one.body.replace(f'{{"error_code":{java},', f'{{"error_code":{kraal},', 1)
        return replace(one, status=kraal, reason=other.reason, body=body), other

    return Allowance(row=row, forgive=forgive)


def header(row: str, name: str, *, chance: bool = False) -> Allowance:
    """Allow a header to differ or to be absent from one response."""

    def forgive(one: Response, other: Response) -> Pair:
        return _remove_header(one, name), _remove_header(other, name)

    return Allowance(row=row, forgive=forgive, chance=chance)


def _remove_header(response: Response, name: str) -> Response:
    return replace(
        response, headers={key: value for key, value in response.headers.items() if key != name.lower()}
    )


def fields(row: str, *names: str, chance: bool = False) -> Allowance:
    """Allow different values of these fields at any depth; both responses must have them at the same paths."""
    return of_json(row, lambda value: _mask(value, names), chance=chance)


def _mask(value: Any, names: Iterable[str]) -> Any:
    match value:
        case dict():
            return {key: "…" if key in names else _mask(each, names) for key, each in value.items()}
        case list():
            return [_mask(each, names) for each in value]
        case _:
            return value


def only_kraal_has(row: str, field: str) -> Allowance:
    """Allow a field that only Kraal's response has, at any depth."""

    def forgive(one: Response, other: Response) -> Pair:
        if other.json is None or field in one.body:
            return one, other
        return one, _dumped(other, _without_field(other.json, field))

    return Allowance(row=row, forgive=forgive)


def _without_field(value: Any, field: str) -> Any:
    match value:
        case dict():
            return {key: _without_field(each, field) for key, each in value.items() if key != field}
        case list():
            return [_without_field(each, field) for each in value]
        case _:
            return value


def in_any_order(row: str, *below: str) -> Allowance:
    """Allow another order of array items; `below` names the fields of the arrays, by default all."""
    return of_json(row, lambda value: _sorted(value, below, inside=not below), chance=True)


def _sorted(value: Any, below: tuple[str, ...], *, inside: bool) -> Any:
    match value:
        case dict():
            return {
                key: _sorted(each, below, inside=not below or key in below) for key, each in value.items()
            }
        case list():
            items = [_sorted(each, below, inside=inside and not below) for each in value]
            return sorted(items, key=json.dumps) if inside else items
        case _:
            return value


def offsets_in_any_order(row: str) -> Allowance:
    """Allow another order of offsets, and of the fields of their partitions and offsets."""

    def change(matched: Any) -> Any:
        if not isinstance(matched, dict) or "offsets" not in matched:
            return matched
        return {"offsets": sorted(json.dumps(each, sort_keys=True) for each in matched["offsets"])}

    return of_json(row, change, chance=True)


def of_json(row: str, change: Callable[[Any], Any], *, chance: bool = False) -> Allowance:
    """Allow JSON bodies that are equal after this conversion."""

    def forgive(one: Response, other: Response) -> Pair:
        if one.json is None or other.json is None:
            return one, other
        return _dumped(one, change(one.json)), _dumped(other, change(other.json))

    return Allowance(row=row, forgive=forgive, chance=chance)


LIST_ORDER = of_json(
    "list-order",
    lambda matched: sorted(matched) if isinstance(matched, list) else dict(sorted(matched.items())),
    chance=True,
)
"""Allows another order of connectors in lists of names and in expanded lists."""


def of_text(row: str, change: Callable[[str], str], *, chance: bool = False) -> Allowance:
    """Allow bodies that are equal after this conversion."""

    def forgive(one: Response, other: Response) -> Pair:
        return replace(one, body=change(one.body)), replace(other, body=change(other.body))

    return Allowance(row=row, forgive=forgive, chance=chance)


def _dumped(response: Response, value: Any) -> Response:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return replace(response, body=body)


OWN = ("kraal.", "io.confluent.", "org.apache.kafka.connect.tools.")
"""Prefixes of the class names of plugins that Kraal includes and Kafka does not."""
_DESCRIBED = re.compile(r"PluginDesc\{klass=class ([^,]+), [^}]*\}(?:, )?")


def missing_plugins(row: str, *types: str) -> Allowance:
    """Allow plugins of these types that only Java has; both must list the others in the same order."""

    def forgive(one: Response, other: Response) -> Pair:
        if not isinstance(one.json, list) or not isinstance(other.json, list):
            return one, other
        ours = {plugin["class"] for plugin in other.json}
        left = [each for each in one.json if each["class"] in ours or each["type"] not in types]
        return _dumped(one, left), _dumped(other, other.json)

    return Allowance(row=row, forgive=forgive)


def missing_in_text(row: str) -> Allowance:
    """Allow the same in an error message that lists the plugins."""

    def forgive(one: Response, other: Response) -> Pair:
        ours = {matched[1] for matched in _DESCRIBED.finditer(other.body)}
        body = _DESCRIBED.sub(lambda matched: matched[0] if matched[1] in ours else "", one.body)
        return replace(one, body=body.replace(', "}', '"}')), other

    return Allowance(row=row, forgive=forgive)


def own_plugins(row: str) -> Allowance:
    """Allow plugins that only Kraal has."""

    def is_own(each: Any) -> bool:
        return isinstance(each, dict) and str(each.get("class")).startswith(OWN)

    def forgive(one: Response, other: Response) -> Pair:
        if isinstance(other.json, list):
            return one, _dumped(other, [each for each in other.json if not is_own(each)])
        body = _DESCRIBED.sub(lambda matched: "" if matched[1].startswith(OWN) else matched[0], other.body)
        return one, replace(other, body=body.replace(', "}', '"}'))

    return Allowance(row=row, forgive=forgive)


def keys_in_any_order(row: str) -> Allowance:
    """Allow another order of the groups and keys in a validation response."""

    def change(infos: Any) -> Any:
        if not isinstance(infos, dict) or "configs" not in infos:
            return infos
        configs = sorted(infos["configs"], key=lambda each: str(each["value"]["name"]))
        return {**infos, "groups": sorted(infos["groups"]), "configs": configs}

    return of_json(row, change, chance=True)


def config_in_any_order(row: str) -> Allowance:
    """Allow another order of the keys of configs."""
    return of_json(row, _with_sorted_configs, chance=True)


def _with_sorted_configs(value: Any) -> Any:
    match value:
        case {"connector.class": _}:
            return dict(sorted(value.items()))
        case dict():
            return {key: _with_sorted_configs(each) for key, each in value.items()}
        case list():
            return [_with_sorted_configs(each) for each in value]
        case _:
            return value


VERSIONS = fields("plugin-versions", "version", chance=True)
"""After several concurrent restarts, Java's version is sometimes null."""
TASKS_LATER = fields("put-creates", "tasks", chance=True)
"""The response to a PUT that creates a connector may precede its tasks."""
