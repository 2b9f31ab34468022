"""What may differ on purpose. Each allowance names the row of docs/compat.md that says why.

An allowance is a pure function that makes two answers alike in the one respect that it is about, and leaves
them alone when that is not how they differ.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tests.differential.exchange import STANDALONE, Answer

Pair = tuple[Answer, Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """One row of the page, for one step."""

    row: str
    forgive: Callable[[Answer, Answer], Pair]
    chance: bool = False
    """Whether both may happen to be alike: orders of hashes, races."""
    only: str = ""
    """The mode that it is for; both when empty."""


def in_standalone(allowance: Allowance) -> Allowance:
    """Allow it in standalone mode alone."""
    return replace(allowance, only=STANDALONE)


def error(row: str, java: int, kraal: int) -> Allowance:
    """Both refuse, with these statuses and whatever texts; all else is alike."""

    def forgive(one: Answer, other: Answer) -> Pair:
        refused = one.message is not None and other.message not in (None, "", "None")
        if (one.status, other.status) != (java, kraal) or not refused:
            return one, other
        return replace(one, status=kraal, reason=other.reason, body=other.body), other

    return Allowance(row=row, forgive=forgive)


def whole(row: str, java: int, kraal: int) -> Allowance:
    """The answers have these statuses, and nothing in common."""

    def forgive(one: Answer, other: Answer) -> Pair:
        return (other, other) if (one.status, other.status) == (java, kraal) else (one, other)

    return Allowance(row=row, forgive=forgive)


def status(row: str, java: int, kraal: int) -> Allowance:
    """Only the statuses differ, so; an error's body repeats its status."""

    def forgive(one: Answer, other: Answer) -> Pair:
        if (one.status, other.status) != (java, kraal):
            return one, other
        body = one.body.replace(f'{{"error_code":{java},', f'{{"error_code":{kraal},', 1)
        return replace(one, status=kraal, reason=other.reason, body=body), other

    return Allowance(row=row, forgive=forgive)


def header(row: str, name: str, *, chance: bool = False) -> Allowance:
    """One header differs, or only one answer has it."""

    def forgive(one: Answer, other: Answer) -> Pair:
        return _without(one, name), _without(other, name)

    return Allowance(row=row, forgive=forgive, chance=chance)


def _without(answer: Answer, name: str) -> Answer:
    return replace(
        answer, headers={key: value for key, value in answer.headers.items() if key != name.lower()}
    )


def fields(row: str, *names: str, chance: bool = False) -> Allowance:
    """The values of these fields differ, wherever they stand; both have them at the same place."""
    return of_json(row, lambda value: _blank(value, names), chance=chance)


def _blank(value: Any, names: Iterable[str]) -> Any:
    match value:
        case dict():
            return {key: "…" if key in names else _blank(each, names) for key, each in value.items()}
        case list():
            return [_blank(each, names) for each in value]
        case _:
            return value


def only_kraal_has(row: str, field: str) -> Allowance:
    """Kraal's answer has a field that Java's has not, wherever it stands."""

    def forgive(one: Answer, other: Answer) -> Pair:
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
    """Items of arrays come in another order; `below` names the field of the array, none: all of them."""
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
    """Offsets come in another order, and so do the fields of their partitions and offsets."""

    def change(found: Any) -> Any:
        if not isinstance(found, dict) or "offsets" not in found:
            return found
        return {"offsets": sorted(json.dumps(each, sort_keys=True) for each in found["offsets"])}

    return of_json(row, change, chance=True)


def of_json(row: str, change: Callable[[Any], Any], *, chance: bool = False) -> Allowance:
    """Both bodies are JSON, and alike after this change."""

    def forgive(one: Answer, other: Answer) -> Pair:
        if one.json is None or other.json is None:
            return one, other
        return _dumped(one, change(one.json)), _dumped(other, change(other.json))

    return Allowance(row=row, forgive=forgive, chance=chance)


LIST_ORDER = of_json(
    "list-order",
    lambda found: sorted(found) if isinstance(found, list) else dict(sorted(found.items())),
    chance=True,
)
"""Connectors come in another order, be it their names or what is told of each."""


def of_text(row: str, change: Callable[[str], str], *, chance: bool = False) -> Allowance:
    """The bodies are alike after this change."""

    def forgive(one: Answer, other: Answer) -> Pair:
        return replace(one, body=change(one.body)), replace(other, body=change(other.body))

    return Allowance(row=row, forgive=forgive, chance=chance)


def _dumped(answer: Answer, value: Any) -> Answer:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return replace(answer, body=body)


OWN = ("kraal.", "io.confluent.", "org.apache.kafka.connect.tools.")
"""How names of plugins start that come with Kraal, and not with Kafka: its own, and others' by their names."""
_DESCRIBED = re.compile(r"PluginDesc\{klass=class ([^,]+), [^}]*\}(?:, )?")


def missing_plugins(row: str, *types: str) -> Allowance:
    """Java has plugins of these types that Kraal has not, among others that both have in the same order."""

    def forgive(one: Answer, other: Answer) -> Pair:
        if not isinstance(one.json, list) or not isinstance(other.json, list):
            return one, other
        ours = {plugin["class"] for plugin in other.json}
        left = [each for each in one.json if each["class"] in ours or each["type"] not in types]
        return _dumped(one, left), _dumped(other, other.json)

    return Allowance(row=row, forgive=forgive)


def missing_in_text(row: str) -> Allowance:
    """The same where an error's text lists what there is."""

    def forgive(one: Answer, other: Answer) -> Pair:
        ours = {found[1] for found in _DESCRIBED.finditer(other.body)}
        body = _DESCRIBED.sub(lambda found: found[0] if found[1] in ours else "", one.body)
        return replace(one, body=body.replace(', "}', '"}')), other

    return Allowance(row=row, forgive=forgive)


def own_plugins(row: str) -> Allowance:
    """Kraal has plugins that Kafka has not, among those that both have."""

    def is_own(each: Any) -> bool:
        return isinstance(each, dict) and str(each.get("class")).startswith(OWN)

    def forgive(one: Answer, other: Answer) -> Pair:
        if isinstance(other.json, list):
            return one, _dumped(other, [each for each in other.json if not is_own(each)])
        body = _DESCRIBED.sub(lambda found: "" if found[1].startswith(OWN) else found[0], other.body)
        return one, replace(other, body=body.replace(', "}', '"}'))

    return Allowance(row=row, forgive=forgive)


def keys_in_any_order(row: str) -> Allowance:
    """The answer to a validation has its groups and keys in another order."""

    def change(infos: Any) -> Any:
        if not isinstance(infos, dict) or "configs" not in infos:
            return infos
        configs = sorted(infos["configs"], key=lambda each: str(each["value"]["name"]))
        return {**infos, "groups": sorted(infos["groups"]), "configs": configs}

    return of_json(row, change, chance=True)


def config_in_any_order(row: str) -> Allowance:
    """The keys of configs come in another order."""
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
"""After several restarts at once, Java's version is null at times."""
TASKS_LATER = fields("put-creates", "tasks", chance=True)
"""A PUT that creates may be answered before the tasks are there, or after."""
