"""Compares the responses to one step. The verdict is a pure function of the responses and the allowances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

from tests.differential.allowances import Allowance
from tests.differential.exchange import Response
from tests.differential.script import Step

_MAX_INLINE_CHARS = 200
_JAVA_RACE: Final = "as the connector has been scheduled for shutdown"
"""Part of Java's message for a 500 if a concurrent request stops a connector before its start is complete
(WorkerConnector.transitionTo)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The faults of a step, and the rows of docs/compat.md that allow the differences."""

    faults: tuple[str, ...]
    needed_rows: frozenset[str]


def judge(
    step: Step, java: Sequence[Response], kraal: Sequence[Response], everywhere: Iterable[Allowance] = ()
) -> Verdict:
    """Compare the normalized responses of both workers.

    A fault is a difference without an allowance, or an unexpected status. An unused allowance of the step is also a
    fault unless it is marked `is_random`. `everywhere` contains the allowances that apply to all steps.
    """
    if missing := _describe_missing("Java", java) + _describe_missing("Kraal", kraal):
        return Verdict(tuple(missing), frozenset())
    if step.allowed_statuses:
        relevant_responses = [response for response in java if _JAVA_RACE not in response.body]
        faults = _describe_unexpected(
            step.allowed_statuses, "Java", relevant_responses
        ) + _describe_unexpected(step.allowed_statuses, "Kraal", kraal)
        return Verdict(tuple(faults), frozenset())
    pairs = list(zip(_sort_responses(java), _sort_responses(kraal), strict=True))
    allowances = (*step.allow, *everywhere)
    if faults := _find_remaining(pairs, allowances):
        return Verdict(tuple(faults), frozenset(allowance.row for allowance in allowances))
    needed_rows = {
        allowance.row
        for index, allowance in enumerate(allowances)
        if _find_remaining(pairs, (*allowances[:index], *allowances[index + 1 :]))
    }
    unused_rows = [
        allowance.row
        for allowance in step.allow
        if allowance.row not in needed_rows and not allowance.is_random
    ]
    return Verdict(tuple(f"the row {row} is not needed here" for row in unused_rows), frozenset(needed_rows))


def _find_remaining(pairs: Iterable[tuple[Response, Response]], allowances: Iterable[Allowance]) -> list[str]:
    """Return the differences that remain after these allowances."""
    texts = []
    for java, kraal in pairs:
        expected, actual = java, kraal
        for allowance in allowances:
            expected, actual = allowance.forgive(expected, actual)
        texts += differences(expected, actual)
    return texts


def differences(java: Response, kraal: Response) -> list[str]:
    """Return a description of each difference in the status, the headers and the body."""
    texts = []
    if (java.status, java.reason) != (kraal.status, kraal.reason):
        texts.append(f"status: Java {java.status} {java.reason}, Kraal {kraal.status} {kraal.reason}")
    texts += [
        f"{name}: Java {java.headers.get(name)}, Kraal {kraal.headers.get(name)}"
        for name in sorted({*java.headers, *kraal.headers})
        if java.headers.get(name) != kraal.headers.get(name)
    ]
    if java.body != kraal.body:
        texts.append(f"body:\n{_format_bodies(java.body, kraal.body)}")
    return texts


def _sort_responses(responses: Sequence[Response]) -> list[Response]:
    return sorted(responses, key=lambda response: (response.status, response.body))


def _describe_missing(worker: str, responses: Sequence[Response]) -> list[str]:
    return [
        f"{worker} did not respond: {response.reason} {response.body}"
        for response in responses
        if not response.status
    ]


def _describe_unexpected(
    allowed_statuses: frozenset[int], worker: str, responses: Sequence[Response]
) -> list[str]:
    return [
        f"{worker}: {response.status} {response.body}"
        for response in responses
        if response.status not in allowed_statuses
    ]


def _format_bodies(java: str, kraal: str) -> str:
    """Format two bodies, as a diff if they are long."""
    if max(len(java), len(kraal)) <= _MAX_INLINE_CHARS:
        return f"  Java  {java}\n  Kraal {kraal}"
    expected, actual = (
        text.replace("},{", "},\n{").replace(',"', ',\n"').splitlines() for text in (java, kraal)
    )
    diff = list(unified_diff(expected, actual, "Java", "Kraal", lineterm="", n=2))
    return "\n".join(diff[:80]) or f"  Java  {java!r}\n  Kraal {kraal!r}"
