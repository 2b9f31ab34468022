"""What differs in many answers: allowed for all steps."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from kraal import __version__
from scripts.harness.java_connect import CURRENT, OLDER
from tests.differential.allowances import OWN, Allowance, Pair, config_in_any_order, header, of_text
from tests.differential.exchange import Answer
from tests.differential.older_connect import as_current

OLDER_ROW: Final = "connect-4-3"
"""What only an older Connect answers differently."""
_VERSION: Final = re.compile(
    r"""(,"version":"|version='|encodedVersion=|"(?:default_value|value)":"|"recommended_values":\[")"""
    rf"""(?:{"|".join(map(re.escape, (CURRENT, *OLDER, __version__)))})(?=["',}}])"""
)
"""Of plugins; that of `GET /` is its first field."""
_OWN: Final = re.compile(rf"""("recommended_values":\[)((?:"(?:{"|".join(map(re.escape, OWN))})[^"]*",)+)""")
"""Names that are recommended, which come before Kafka's own: lists are sorted."""


def _as_current(one: Answer, other: Answer) -> Pair:
    """Replace Java's texts of Connect 4.3 by the current ones, and nothing of Kraal's."""
    return replace(one, body=as_current(one.body)), other


def _named_alike(one: Answer, other: Answer) -> Pair:
    """A 500 is called by HTTP's name, whichever of both it has."""
    names = {"Server Error", "Internal Server Error"}
    if {one.reason, other.reason} == names and one.status == other.status:
        return replace(one, reason=other.reason), other
    return one, other


EVERYWHERE: Final[tuple[Allowance, ...]] = (
    header("server", "Server"),
    config_in_any_order("config-order"),
    Allowance(row="reason", forgive=_named_alike),
    Allowance(row=OLDER_ROW, forgive=_as_current),
    of_text("own-plugins", lambda body: _OWN.sub(r"\1", body)),
    of_text("plugin-versions", lambda body: _VERSION.sub(r"\1VERSION", body)),
)
