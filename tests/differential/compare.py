"""The verdict on one step: a pure function of its responses and the allowances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Final

from tests.differential.allowances import Allowance
from tests.differential.exchange import Response
from tests.differential.script import Step

_LONG = 200
_JAVA_RACE: Final = "as the connector has been scheduled for shutdown"
"""In the message of Java's 500 if a concurrent request stops the connector before it has started
(WorkerConnector.transitionTo)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The faults of a step, and the rows of the page that allow its differences."""

    faults: tuple[str, ...]
    needed: frozenset[str]


def judge(
    step: Step, java: Sequence[Response], kraal: Sequence[Response], everywhere: Iterable[Allowance] = ()
) -> Verdict:
    """Compare the normalized responses of both workers.

    A fault is a difference without an allowance, an unexpected status, or an unused allowance of the step, unless it is
    marked `chance`. `everywhere` are the allowances of all steps.
    """
    if silent := _silent("Java", java) + _silent("Kraal", kraal):
        return Verdict(tuple(silent), frozenset())
    if step.among:
        judged = [each for each in java if _JAVA_RACE not in each.body]
        wrong = _unexpected(step.among, "Java", judged) + _unexpected(step.among, "Kraal", kraal)
        return Verdict(tuple(wrong), frozenset())
    pairs = list(zip(_in_order(java), _in_order(kraal), strict=True))
    allowed = (*step.allow, *everywhere)
    if faults := _find_remaining(pairs, allowed):
        return Verdict(tuple(faults), frozenset(each.row for each in allowed))
    needed = {
        each.row
        for n, each in enumerate(allowed)
        if _find_remaining(pairs, (*allowed[:n], *allowed[n + 1 :]))
    }
    stale = [each.row for each in step.allow if each.row not in needed and not each.chance]
    return Verdict(tuple(f"the row {row} is not needed here" for row in stale), frozenset(needed))


def _find_remaining(pairs: Iterable[tuple[Response, Response]], allowed: Iterable[Allowance]) -> list[str]:
    """Return the remaining differences after these allowances."""
    texts = []
    for java, kraal in pairs:
        one, other = java, kraal
        for allowance in allowed:
            one, other = allowance.forgive(one, other)
        texts += differences(one, other)
    return texts


def differences(java: Response, kraal: Response) -> list[str]:
    """Return a description of the difference of each part of the responses."""
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


def _in_order(responses: Sequence[Response]) -> list[Response]:
    return sorted(responses, key=lambda response: (response.status, response.body))


def _silent(who: str, responses: Sequence[Response]) -> list[str]:
    return [f"{who} did not respond: {each.reason} {each.body}" for each in responses if not each.status]


def _unexpected(among: frozenset[int], who: str, responses: Sequence[Response]) -> list[str]:
    return [f"{who}: {each.status} {each.body}" for each in responses if each.status not in among]


def _format_bodies(java: str, kraal: str) -> str:
    """Format two bodies; long ones as a diff."""
    if max(len(java), len(kraal)) <= _LONG:
        return f"  Java  {java}\n  Kraal {kraal}"
    one, other = (text.replace("},{", "},\n{").replace(',"', ',\n"').splitlines() for text in (java, kraal))
    diff = list(unified_diff(one, other, "Java", "Kraal", lineterm="", n=2))
    return "\n".join(diff[:80]) or f"  Java  {java!r}\n  Kraal {kraal!r}"
