"""Cases of transform chains and input records, with which Connect and Kraal are compared."""

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
