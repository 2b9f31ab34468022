r"""Java's predefined character classes, such as `\p{Alpha}` and `\d`.

Unicode categories are limited to ASCII, because topic names contain only ASCII characters.
"""

from __future__ import annotations

from typing import Final

from kraal.config.regex.characters import Characters


def _ranges(text: str) -> Characters:
    """Return the set of the ranges in `text`, which contains the first and last character of each range: `azAZ`."""
    ends = iter(map(ord, text))
    return Characters.of(*zip(ends, ends, strict=True))


_LOWER: Final = _ranges("az")
_UPPER: Final = _ranges("AZ")
_ALPHA: Final = _LOWER | _UPPER
_DIGIT: Final = _ranges("09")
_SPACE: Final = _ranges("\t\r  ")
_HORIZONTAL: Final = _ranges(
    "\t\t  \xa0\xa0\u1680\u1680\u180e\u180e\u2000\u200a\u202f\u202f\u205f\u205f\u3000\u3000"
)
_VERTICAL: Final = _ranges("\n\r\x85\x85\u2028\u2029")
_CASED: Final = frozenset({"Lower", "Upper", "Lu", "Ll"})
"""Sets that include both cases with CASE_INSENSITIVE."""
_PROPERTIES: Final = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": _ranges("\0\x7f"),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": _ALPHA | _DIGIT,
    "Punct": _ranges("!/:@[`{~"),
    "Graph": _ranges("!~"),
    "Print": _ranges(" ~"),
    "Blank": _ranges("\t\t  "),
    "Cntrl": _ranges("\0\x1f\x7f\x7f"),
    "XDigit": _ranges("09afAF"),
    "Space": _SPACE,
    "L": _ALPHA,
    "Lu": _UPPER,
    "Ll": _LOWER,
    "N": _DIGIT,
    "Nd": _DIGIT,
    "IsAlphabetic": _ALPHA,
    "IsDigit": _DIGIT,
}
_ESCAPES: Final = {
    "d": _DIGIT,
    "h": _HORIZONTAL,
    "s": _SPACE,
    "v": _VERTICAL,
    "w": _ALPHA | _DIGIT | _ranges("__"),
}


def property_set(name: str, *, is_negated: bool, ignore_case: bool) -> Characters | None:
    r"""Return the set of `\p{name}`, or of `\P{name}` if `is_negated`; None if the name is unknown."""
    characters = _PROPERTIES.get(name)
    if characters is None:
        return None
    if ignore_case and name in _CASED:
        characters = characters.ignoring_case()
    return ~characters if is_negated else characters


def escape_set(letter: str) -> Characters | None:
    r"""Return the set of an escape such as `\d` or `\D`; None if the letter has no set."""
    if letter.lower() not in _ESCAPES:
        return None
    return _ESCAPES[letter] if letter.islower() else ~_ESCAPES[letter.lower()]
