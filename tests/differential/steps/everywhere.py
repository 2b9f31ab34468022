"""Differences that are allowed in all steps."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kraal import __version__
from scripts.harness.java_connect import CURRENT, OLDER
from tests.differential.allowances import OWN, Allowance, Pair, config_in_any_order, header, of_text
from tests.differential.exchange import Response
from tests.differential.older_connect import as_current

OLDER_ROW: Final = "connect-4-3"
"""The row of differences that only an older Connect has."""
_VERSION: Final = re.compile(
    r"""(,"version":"|version='|encodedVersion=|"(?:default_value|value)":"|"recommended_values":\[")"""
    rf"""(?:{"|".join(map(re.escape, (CURRENT, *OLDER, __version__)))})(?=["',}}])"""
)
"""Versions of plugins; that of `GET /` is the first field and does not match."""
_OWN: Final = re.compile(rf"""("recommended_values":\[)((?:"(?:{"|".join(map(re.escape, OWN))})[^"]*",)+)""")
"""Recommended class names that sort before Kafka's own."""


def _as_current(one: Response, other: Response) -> Pair:
    """Convert Java's texts of Connect 4.3 to the current ones; keep Kraal's."""
    return replace(one, body=as_current(one.body)), other


def _unify_reason(one: Response, other: Response) -> Pair:
    """Use HTTP's reason phrase for a 500 with either of both phrases."""
    names = {"Server Error", "Internal Server Error"}
    if {one.reason, other.reason} == names and one.status == other.status:
        return replace(one, reason=other.reason), other
    return one, other


EVERYWHERE: Final[tuple[Allowance, ...]] = (
    header("server", "Server"),
    config_in_any_order("config-order"),
    Allowance(row="reason", forgive=_unify_reason),
    Allowance(row=OLDER_ROW, forgive=_as_current),
    of_text("own-plugins", lambda body: _OWN.sub(r"\1", body)),
    of_text("plugin-versions", lambda body: _VERSION.sub(r"\1VERSION", body)),
)
