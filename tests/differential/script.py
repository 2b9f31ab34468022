"""How the script is written: one line for each request, with what to wait for and which differences are allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.differential.allowances import Allowance
from tests.differential.exchange import DISTRIBUTED, STANDALONE, Answer, Here, Request

MODES: Final = (DISTRIBUTED, STANDALONE)
JSON: Final = "application/json"

Condition = Callable[[Answer], bool]
Act = Callable[[Here], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Some requests, sent at once when they are several, and how their answers are compared."""

    name: str
    requests: tuple[Request, ...]
    until: Condition | None = None
    """The request is sent again until this holds of its answer, on each worker for itself."""
    before: Act | None = None
    """What is done on each worker's machine before: files are written."""
    allow: tuple[Allowance, ...] = ()
    only: str = ""
    """The mode that it is for; both when empty."""
    among: frozenset[int] = frozenset()
    """When given, who wins is chance: each answer has one of these statuses, and no more is compared."""

    def in_mode(self, mode: str) -> Step:
        """Return the step with what is allowed in this mode."""
        return replace(self, allow=tuple(each for each in self.allow if each.only in ("", mode)))


def ask(
    name: str,
    line: str,
    body: object = None,
    *allow: Allowance,
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
    until: Condition | None = None,
    before: Act | None = None,
    only: str = "",
) -> Step:
    """Write one step.

    Args:
        name: what is asked, in words; unique within its family.
        line: `METHOD /target`.
        body: text or bytes are sent as they are, all else as JSON; None: no body.
        allow: which differences are, and have to be.
        content_type: None: JSON when there is a body; empty: no such header.
        headers: more of them.
        until: see `Step`.
        before: see `Step`.
        only: see `Step`.
    """
    request = _request(line, body, content_type, headers or {})
    return Step(name=name, requests=(request,), until=until, before=before, allow=allow, only=only)


def at_once(
    name: str,
    lines: Iterable[tuple[str, object]],
    *allow: Allowance,
    among: Iterable[int] = (),
    only: str = "",
) -> Step:
    """Write a step of several requests that are sent at the same moment; their answers are compared in any order."""
    requests = tuple(_request(line, body, None, {}) for line, body in lines)
    return Step(name=name, requests=requests, allow=allow, among=frozenset(among), only=only)


def family(name: str, *steps: Step | Iterable[Step]) -> list[Step]:
    """Name the steps of one family, in order."""
    flat = [step for each in steps for step in ([each] if isinstance(each, Step) else each)]
    return [replace(step, name=f"{name}: {step.name}") for step in flat]


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
    sent = JSON if content_type is None and content is not None else content_type
    typed = {"Content-Type": sent} if sent else {}
    return Request(method=method, target=target, body=content, headers=tuple({**typed, **headers}.items()))


# -- conditions --------------------------------------------------------------------------------------------


def states(*wanted: str) -> Condition:
    """Of a status, or of an accepted restart: the connector's state and its tasks', in order."""

    def hold(answer: Answer) -> bool:
        body = answer.json
        if answer.status not in {200, 202} or not isinstance(body, dict):
            return False
        return [body["connector"]["state"], *(task["state"] for task in body["tasks"])] == list(wanted)

    return hold


def listed_states(name: str, *wanted: str) -> Condition:
    """Of a list with `expand=status`: the states of the connector whose name begins so, and of its tasks."""

    def hold(answer: Answer) -> bool:
        if answer.status != 200:
            return False
        (body,) = (each["status"] for key, each in answer.json.items() if key.startswith(name))
        return [body["connector"]["state"], *(task["state"] for task in body["tasks"])] == list(wanted)

    return hold


def state(wanted: str) -> Condition:
    """Of a task's status."""
    return lambda answer: answer.status == 200 and answer.json["state"] == wanted


def status(code: int) -> Condition:
    """Of any answer."""
    return lambda answer: answer.status == code


def has(text: str) -> Condition:
    """Of any answer that is no error: its body has this text."""
    return lambda answer: answer.status == 200 and text in answer.body


def lacks(text: str) -> Condition:
    """Of any answer that is no error: its body does not have this text."""
    return lambda answer: answer.status == 200 and text not in answer.body


# -- what is done next to REST ------------------------------------------------------------------------------


def append(file: str, text: str) -> Act:
    """Append to a file of the worker's directory."""

    def act(here: Here) -> None:
        path = Path(here.directory) / file
        with path.open("a", encoding="utf-8") as out:
            out.write(text)

    return act
