"""The consumer setting `auto.offset.reset`: where to start without a valid committed offset (KIP-1106).

Source: AutoOffsetResetStrategy (Kafka 4.4.0), java.time.Duration.parse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, cast

from kraal.config.checks import rule
from kraal.config.values import invalid, trim
from kraal.core.errors import ConfigInvalid

_BY_DURATION: Final = "by_duration:"
_NAMES: Final = frozenset({"earliest", "latest", "none"})
_NUMBER: Final = r"([-+]?[0-9]{1,18})"
_DURATION: Final = re.compile(
    rf"([-+]?)P(?=[-+0-9T])(?:{_NUMBER}D)?"
    rf"(?:T(?=[-+0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,]([0-9]{{0,9}}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """A parsed value of `auto.offset.reset`."""

    policy: Literal["earliest", "latest", "none", "by_duration"]
    age_ms: int = 0
    """With `by_duration`, the age of the oldest records to read, in milliseconds."""

    @staticmethod
    def parse(text: str) -> OffsetReset:
        """Parse a value. As in Java, only durations are case-insensitive. Raises ValueError."""
        name = trim(text)
        if name in _NAMES:
            return OffsetReset(cast("Literal['earliest', 'latest', 'none']", name))
        age_ms = (
            _parse_duration_ms(name.removeprefix(_BY_DURATION)) if name.startswith(_BY_DURATION) else None
        )
        if age_ms is None or age_ms < 0:
            raise ValueError(name)
        return OffsetReset("by_duration", age_ms)


@rule("`earliest`, `latest`, `none`, or `by_duration:` and an ISO-8601 duration such as `PT1H`")
def offset_reset(name: str, value: object) -> str | None:
    """Require a value of `auto.offset.reset`. Source: AutoOffsetResetStrategy.Validator."""
    try:
        OffsetReset.parse(str(value))
    except ValueError:
        return invalid(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest', 'none' "
            "or of the format 'by_duration:<PnDTnHnMn.nS.>'.",
        )
    return None


def read_offset_reset(name: str, text: str) -> OffsetReset:
    """Parse the value of a key. Raises ConfigInvalid."""
    if (error := offset_reset(name, text)) is not None:
        raise ConfigInvalid(error, [error])
    return OffsetReset.parse(text)


def _parse_duration_ms(text: str) -> int | None:
    """Parse an ISO-8601 duration without months and years; return milliseconds, or None if the text is invalid."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    sign, *numbers, fraction = match.groups()
    total_ms = sum(int(number or 0) * unit for number, unit in zip(numbers, _UNITS_MS, strict=True))
    fraction_ms = int((fraction or "").ljust(3, "0")[:3])
    total_ms += -fraction_ms if (numbers[-1] or "").startswith("-") else fraction_ms
    return -total_ms if sign == "-" else total_ms
