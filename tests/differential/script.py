"""The notation of the script: one line per request, with its condition and the allowed differences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.differential.allowances import Allowance
from tests.differential.exchange import DISTRIBUTED, STANDALONE, Placeholders, Request, Response

MODES: Final = (DISTRIBUTED, STANDALONE)
JSON: Final = "application/json"

Condition = Callable[[Response], bool]
Action = Callable[[Placeholders], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One or more concurrent requests, and the comparison of their responses."""

    name: str
    requests: tuple[Request, ...]
    until: Condition | None = None
    """The request is repeated on each worker until its response meets this condition."""
    before: Action | None = None
    """An action before the requests on each worker, such as writing a file."""
    allow: tuple[Allowance, ...] = ()
    only: str = ""
    """The mode in which the step runs, or an empty string for both modes."""
    allowed_statuses: frozenset[int] = frozenset()
    """If not empty, each response must have one of these statuses, and nothing else is compared."""

    def in_mode(self, mode: str) -> Step:
        """Return the step with only the allowances of this mode."""
        return replace(
            self, allow=tuple(allowance for allowance in self.allow if allowance.only in ("", mode))
        )


def ask(
    name: str,
    line: str,
    body: object = None,
    *allow: Allowance,
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
    until: Condition | None = None,
    before: Action | None = None,
    only: str = "",
) -> Step:
    """Return a step with one request.

    Args:
        name: description of the request. It must be unique within the family.
        line: `METHOD /target`.
        body: text and bytes are sent unchanged, other values as JSON; None for no body.
        allow: the allowed differences. They must occur unless marked `is_random`.
        content_type: by default JSON if there is a body; empty for no header.
        headers: additional headers.
        until: see `Step`.
        before: see `Step`.
        only: see `Step`.
    """
    request = _request(line, body, content_type, headers or {})
    return Step(name=name, requests=(request,), until=until, before=before, allow=allow, only=only)


def ask_concurrently(
    name: str,
    lines: Iterable[tuple[str, object]],
    *allow: Allowance,
    allowed_statuses: Iterable[int] = (),
    only: str = "",
) -> Step:
    """Return a step with several concurrent requests, whose responses are compared in any order."""
    requests = tuple(_request(line, body, None, {}) for line, body in lines)
    return Step(
        name=name, requests=requests, allow=allow, allowed_statuses=frozenset(allowed_statuses), only=only
    )


def family(name: str, *steps: Step | Iterable[Step]) -> list[Step]:
    """Return the steps of a family, with the name of the family as a prefix of the step names."""
    flat_steps = [step for item in steps for step in ([item] if isinstance(item, Step) else item)]
    return [replace(step, name=f"{name}: {step.name}") for step in flat_steps]


def _request(line: str, body: object, content_type: str | None, headers: Mapping[str, str]) -> Request:
    method, _, target = line.partition(" ")
    match body:
        case None:
            content = None
        case bytes():
            content = body
        case str():
            content = body.encode()
        case _:
            content = json.dumps(body, ensure_ascii=False).encode()
    media_type = JSON if content_type is None and content is not None else content_type
    type_header = {"Content-Type": media_type} if media_type else {}
    return Request(
        method=method, target=target, body=content, headers=tuple({**type_header, **headers}.items())
    )


# -- conditions --------------------------------------------------------------------------------------------


def states(*expected: str) -> Condition:
    """Return a condition for the states of the connector and its tasks in a status or an accepted restart."""

    def is_met(response: Response) -> bool:
        body = response.json
        if response.status not in {200, 202} or not isinstance(body, dict):
            return False
        return [body["connector"]["state"], *(task["state"] for task in body["tasks"])] == list(expected)

    return is_met


def listed_states(name: str, *expected: str) -> Condition:
    """Return a condition for the states of the connector with this name prefix and its tasks in an expanded list."""

    def is_met(response: Response) -> bool:
        if response.status != 200:
            return False
        (body,) = (infos["status"] for key, infos in response.json.items() if key.startswith(name))
        return [body["connector"]["state"], *(task["state"] for task in body["tasks"])] == list(expected)

    return is_met


def state(expected: str) -> Condition:
    """Return a condition for the state in a task's status."""
    return lambda response: response.status == 200 and response.json["state"] == expected


def status(code: int) -> Condition:
    """Return a condition for the status code of a response."""
    return lambda response: response.status == code


def has(text: str) -> Condition:
    """Return a condition that holds if a response has status 200 and its body contains the text."""
    return lambda response: response.status == 200 and text in response.body


def lacks(text: str) -> Condition:
    """Return a condition that holds if a response has status 200 and its body does not contain the text."""
    return lambda response: response.status == 200 and text not in response.body


# -- actions outside of REST --------------------------------------------------------------------------------


def append(file: str, text: str) -> Action:
    """Return an action that appends to a file in the worker's directory."""

    def append_text(placeholders: Placeholders) -> None:
        path = Path(placeholders.directory) / file
        with path.open("a", encoding="utf-8") as out:
            out.write(text)

    return append_text
