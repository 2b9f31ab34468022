"""The verdict on one step: a pure function of its answers and of what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff

from tests.differential.allowances import Allowance
from tests.differential.exchange import Answer
from tests.differential.script import Step

_LONG = 200


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a step, in sentences; and the rows of the page that explain what differs."""

    faults: tuple[str, ...]
    needed: frozenset[str]


def judge(
    step: Step, java: Sequence[Answer], kraal: Sequence[Answer], everywhere: Iterable[Allowance] = ()
) -> Verdict:
    """Compare the answers of both workers, after `normal`.

    A fault is a difference that no allowance takes away, a status that may not be, and an allowance of the step
    that took nothing away, unless it is about chance. `everywhere` are allowances of all steps.
    """
    if silent := _silent("Java", java) + _silent("Kraal", kraal):
        return Verdict(tuple(silent), frozenset())
    if step.among:
        wrong = _unexpected(step.among, "Java", java) + _unexpected(step.among, "Kraal", kraal)
        return Verdict(tuple(wrong), frozenset())
    pairs = list(zip(_in_order(java), _in_order(kraal), strict=True))
    allowed = (*step.allow, *everywhere)
    if faults := _left(pairs, allowed):
        return Verdict(tuple(faults), frozenset(each.row for each in allowed))
    needed = {each.row for n, each in enumerate(allowed) if _left(pairs, (*allowed[:n], *allowed[n + 1 :]))}
    stale = [each.row for each in step.allow if each.row not in needed and not each.chance]
    return Verdict(tuple(f"the row {row} is not needed here" for row in stale), frozenset(needed))


def _left(pairs: Iterable[tuple[Answer, Answer]], allowed: Iterable[Allowance]) -> list[str]:
    """Return the differences that are left when these are allowed."""
    found = []
    for java, kraal in pairs:
        one, other = java, kraal
        for allowance in allowed:
            one, other = allowance.forgive(one, other)
        found += differences(one, other)
    return found


def differences(java: Answer, kraal: Answer) -> list[str]:
    """Return what differs, a sentence for each part of the answers."""
    found = []
    if (java.status, java.reason) != (kraal.status, kraal.reason):
        found.append(f"status: Java {java.status} {java.reason}, Kraal {kraal.status} {kraal.reason}")
    found += [
        f"{name}: Java {java.headers.get(name)}, Kraal {kraal.headers.get(name)}"
        for name in sorted({*java.headers, *kraal.headers})
        if java.headers.get(name) != kraal.headers.get(name)
    ]
    if java.body != kraal.body:
        found.append(f"body:\n{_beside(java.body, kraal.body)}")
    return found


def _in_order(answers: Sequence[Answer]) -> list[Answer]:
    return sorted(answers, key=lambda answer: (answer.status, answer.body))


def _silent(who: str, answers: Sequence[Answer]) -> list[str]:
    return [f"{who} did not answer: {each.reason} {each.body}" for each in answers if not each.status]


def _unexpected(among: frozenset[int], who: str, answers: Sequence[Answer]) -> list[str]:
    return [f"{who}: {each.status} {each.body}" for each in answers if each.status not in among]


def _beside(java: str, kraal: str) -> str:
    """Show two bodies; of long ones only where they differ."""
    if max(len(java), len(kraal)) <= _LONG:
        return f"  Java  {java}\n  Kraal {kraal}"
    one, other = (text.replace("},{", "},\n{").replace(',"', ',\n"').splitlines() for text in (java, kraal))
    shown = list(unified_diff(one, other, "Java", "Kraal", lineterm="", n=2))
    return "\n".join(shown[:80]) or f"  Java  {java!r}\n  Kraal {kraal!r}"
