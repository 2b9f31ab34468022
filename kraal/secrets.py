"""Values that nobody is to read: collected where they come up, taken out of logs, traces and errors.

Whoever learns a secret says so (`secrets.add`); whoever writes a text for people has it cleaned (`secrets.scrub`).
There is one registry in a process, as there is one log. What counts as a secret: values of type PASSWORD, values
of keys whose names sound like one (`names_secret`), and every value that a config provider returned.

A short or an everyday value must not blank the whole log, and who knows only where it was hidden learns nothing of
a long one. So a value of fewer than 4 characters is never looked for; one of fewer than 8 is hidden only where it
stands as a word of its own; longer ones wherever they stand, also escaped (in JSON, in Python's `repr`, in URLs).
Words that any log is full of, such as `true` or `localhost`, are no secrets. Of a text of several lines each line
of 12 characters or more is hidden by itself.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"
"""What stands in a secret's place; Connect's word for values of type PASSWORD."""

SHORTEST = 4
ANYWHERE = 8
LONG_LINE = 12
MOST = 5_000
"""So many values are remembered; the oldest are forgotten. Tokens that change each minute fill it in days."""

_NAME = re.compile(r"password|secret|token|credential|key|jaas", re.IGNORECASE)
_ABOUT = re.compile(
    r"(?:^|[._-])(?:algorithms?|class|columns?|converter|deserializer|enabled?|fields?|file|format|ignore|location"
    r"|mode|ms|names?|path|provider|serializer|size|strategy|types?|ur[il]|version)$",
    re.IGNORECASE,
)
"""Ends of names that speak about a key or a secret and hold none: `ssl.keystore.location`, `key.converter`."""
_KEY_CONVERTER = re.compile(r"^key\.converter(?:\.|$)")
_OPTION = re.compile(r"(?<!\w)(\w++)\s*+=\s*+")
"""As `++` gives nothing back, each character is read once or twice, whatever the text is."""
_OPTION_VALUE = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^\s;\"']+)")
_SECRET_OPTION = re.compile(r"password|secret|token|key", re.IGNORECASE)
_EVERYDAY = frozenset(
    re.findall(
        r"\w+",
        "all connect connector debug disabled earliest enabled error false fatal file hidden host http https info json "
        "kafka kraal latest localhost none null plain plaintext running sasl_plaintext sasl_ssl sink source spark "
        "string task topic trace true warn warning worker",
    )
)


def names_secret(key: str) -> bool:
    """Tell whether a key's name sounds like its value is nobody's business."""
    name = _KEY_CONVERTER.sub("", key)
    return _NAME.search(name) is not None and _ABOUT.search(name) is None


def hides(value: str) -> bool:
    """Tell whether a secret value is one that is looked for in texts."""
    text = value.strip()
    return len(text) >= SHORTEST and text.lower() not in _EVERYDAY


class Secrets:
    """The secrets of a process; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, ...]] = {}
        """Each value, with how it may be written."""
        self._forms: tuple[str, ...] = ()
        """All of that, the longest first; replaced, never changed."""

    def add(self, *values: str | None) -> None:
        """Hide these from now on."""
        new = [value for value in values if value is not None and value not in self._known and hides(value)]
        if not new:
            return
        with self._lock:
            self._known.update((value, tuple(dict.fromkeys(_forms(value)))) for value in new)
            for oldest in list(self._known)[: max(0, len(self._known) - MOST)]:
                del self._known[oldest]
            forms = {form for each in self._known.values() for form in each}
            self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))

    def forget(self) -> None:
        """Hide nothing any more; for tests."""
        with self._lock:
            self._known.clear()
            self._forms = ()

    def scrub(self, text: str) -> str:
        """Return the text with `[hidden]` for each secret in it."""
        # Searching for each is much faster than one expression of all: nearly none is ever there.
        for form in self._forms:
            if form in text:
                text = replaced(form, HIDDEN, text)
        return text


secrets = Secrets()
"""This process's."""


def replaced(value: str, by: str, text: str) -> str:
    """Return the text with `by` for a value: a long one wherever it stands, a short one as a word of its own."""
    if len(value) >= ANYWHERE:
        return text.replace(value, by)
    return re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", lambda _: by, text)


def _secret_options(text: str) -> Iterator[str]:
    """Return the values of options such as `password="…"` in a text."""
    at = 0
    while (option := _OPTION.search(text, at)) is not None:
        at = option.end()
        if _SECRET_OPTION.search(option[1]) and (value := _OPTION_VALUE.match(text, at)) is not None:
            at = value.end()
            yield next(group for group in value.groups() if group is not None)


def _forms(value: str) -> Iterator[str]:
    """Return how a value may be written: itself, its lines, what is inside of a JAAS entry; each also escaped."""
    text = value.strip()
    parts = [text]
    if "\n" in text:
        parts += [line.strip() for line in text.splitlines() if len(line.strip()) >= LONG_LINE]
    parts += filter(hides, _secret_options(text))
    for part in parts:
        yield part
        yield repr(part)[1:-1]
        yield json.dumps(part)[1:-1]
        yield json.dumps(part, ensure_ascii=False)[1:-1]
        yield quote(part, safe="")
        yield quote_plus(part)
