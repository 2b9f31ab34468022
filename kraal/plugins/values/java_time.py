"""Dates and times in UTC as in Java's GregorianCalendar: any year; the Julian calendar before October 15, 1582.

Source: java.util.GregorianCalendar, Date.toString, SimpleDateFormat.
"""

from __future__ import annotations

from typing import Final

MS_PER_DAY: Final = 86_400_000

_CUTOVER: Final = -141_427
"""October 15, 1582, in days since 1970."""

_WEEKDAYS: Final = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MARCH_0: Final = 719_468
"""Days from March 1 of year 0 (Gregorian) to 1970."""
_MARCH_0_JULIAN: Final = 719_470
"""Days from March 1 of year 0 (Julian) to 1970."""
_DAYS_PER_ERA: Final = 146_097
"""Days in 400 Gregorian years."""
_DAYS_PER_FOUR_YEARS: Final = 1_461
"""Days in four Julian years."""
_FEBRUARY: Final = 2
_MONTHS_PER_YEAR: Final = 12


def from_epoch_day(days: int) -> tuple[int, int, int]:
    """Convert days since 1970 to year (0 is 1 BC), month and day."""
    if days >= _CUTOVER:
        era, day_of_era = divmod(days + _MARCH_0, _DAYS_PER_ERA)
        year = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
        day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
        year += era * 400
    else:
        four_year_cycle, day_of_cycle = divmod(days + _MARCH_0_JULIAN, _DAYS_PER_FOUR_YEARS)
        year = (day_of_cycle - day_of_cycle // 1460) // 365
        day_of_year = day_of_cycle - 365 * year
        year += four_year_cycle * 4
    month_from_march = (5 * day_of_year + 2) // 153
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9  # noqa: PLR2004 - from March to December
    return year + (month <= _FEBRUARY), month, day_of_year - (153 * month_from_march + 2) // 5 + 1


def to_epoch_day(year: int, month: int, day: int) -> int:
    """Convert a date to days since 1970; a month or a day out of range overflows, as in a lenient calendar."""
    carried_years, month = divmod(month - 1, _MONTHS_PER_YEAR)
    month += 1
    march_year = year + carried_years - (month <= _FEBRUARY)
    day_of_year = (153 * (month + (-3 if month > _FEBRUARY else 9)) + 2) // 5 + day - 1
    leap_days = march_year // 4 - march_year // 100 + march_year // 400
    days = march_year * 365 + leap_days + day_of_year - _MARCH_0
    if days >= _CUTOVER:
        return days
    return march_year * 365 + march_year // 4 + day_of_year - _MARCH_0_JULIAN


def split_timestamp(ms: int) -> tuple[int, int, int, int, int]:
    """Split milliseconds since 1970 into days, hour, minute, second and millisecond."""
    day, remainder = divmod(ms, MS_PER_DAY)
    hour, remainder = divmod(remainder, 3_600_000)
    minute, remainder = divmod(remainder, 60_000)
    return day, hour, minute, *divmod(remainder, 1000)


def format_date(ms: int) -> str:
    """Format milliseconds since 1970 like `Date.toString`: `Thu Jan 01 00:00:00 UTC 1970`."""
    days, hour, minute, second, _ = split_timestamp(ms)
    year, month, day = from_epoch_day(days)
    era_year = year if year > 0 else 1 - year
    return f"{_WEEKDAYS[days % 7]} {_MONTHS[month - 1]} {day:02d} {hour:02d}:{minute:02d}:{second:02d} UTC {era_year}"


def format_iso_date(ms: int) -> str:
    """Format the date of milliseconds since 1970 as `yyyy-MM-dd`."""
    year, month, day = from_epoch_day(ms // MS_PER_DAY)
    return f"{year if year > 0 else 1 - year:04d}-{month:02d}-{day:02d}"


def format_iso_time(ms: int) -> str:
    """Format the time of milliseconds since 1970 as `HH:mm:ss.SSSZ`."""
    _, hour, minute, second, remainder = split_timestamp(ms)
    return f"{hour:02d}:{minute:02d}:{second:02d}.{remainder:03d}Z"
