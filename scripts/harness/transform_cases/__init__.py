"""Chains of transforms and the records that go through them: what real Java is asked, and Kraal after it."""

from __future__ import annotations

from scripts.harness.transform_cases import chains, fields, headers, numbers, times, topics
from scripts.harness.transform_cases.building import Case

CASES: list[Case] = [
    *fields.CASES,
    *numbers.CASES,
    *times.CASES,
    *headers.CASES,
    *topics.CASES,
    *chains.CASES,
]
