"""Differences that are allowed in all steps."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kraal import __version__
from scripts.harness.java_connect import CURRENT, OLDER
from tests.differential.allowances import (
    KRAAL_PREFIXES,
    Allowance,
    Pair,
    config_in_any_order,
    header,
    of_text,
)
from tests.differential.exchange import Response
from tests.differential.older_connect import as_current

OLDER_ROW: Final = "connect-4-3"
"""The id of the row for differences that only an older Connect has."""
_VERSION: Final = re.compile(
    r"""(,"version":"|version='|encodedVersion=|"(?:default_value|value)":"|"recommended_values":\[")"""
    rf"""(?:{"|".join(map(re.escape, (CURRENT, *OLDER, __version__)))})(?=["',}}])"""
)
"""Matches versions of plugins. The version in `GET /` is the first field, and does not match."""
_KRAAL_CLASSES: Final = re.compile(
    rf"""("recommended_values":\[)((?:"(?:{"|".join(map(re.escape, KRAAL_PREFIXES))})[^"]*",)+)"""
)
"""Matches Kraal's class names at the start of a list of recommended values."""


def _as_current(expected: Response, actual: Response) -> Pair:
    """Convert texts of Connect 4.3 in Java's response to the current texts."""
    return replace(expected, body=as_current(expected.body)), actual


def _unify_reason(expected: Response, actual: Response) -> Pair:
    """Use one reason phrase for a 500, for which Java and Kraal have different phrases."""
    phrases = {"Server Error", "Internal Server Error"}
    if {expected.reason, actual.reason} == phrases and expected.status == actual.status:
        return replace(expected, reason=actual.reason), actual
    return expected, actual


EVERYWHERE: Final[tuple[Allowance, ...]] = (
    header("server", "Server"),
    config_in_any_order("config-order"),
    Allowance(row="reason", forgive=_unify_reason),
    Allowance(row=OLDER_ROW, forgive=_as_current),
    of_text("own-plugins", lambda body: _KRAAL_CLASSES.sub(r"\1", body)),
    of_text("plugin-versions", lambda body: _VERSION.sub(r"\1VERSION", body)),
)
