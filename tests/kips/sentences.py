"""The sentences of the KIPs that are to be true, one by one, as `sentences/*.toml` lists them.

A file has all of a KIP's sections between two headings, sentence by sentence, in order: its `digest` is the SHA-256
of the letters and digits of that part of the KIP, so a sentence that is left out, or changed, shows without the
KIP at hand. Shape of a file:

    kip = 745
    title = "Connect API to restart connector and tasks"
    begins = "Public Interfaces"     # the first heading
    ends = "Rejected Alternatives"   # the heading after the last section; "" is the end of the page
    digest = "…"
    [[sentence]]
    section = "Restart Method"       # the heading above; not repeated within a section
    says = "…"                       # verbatim; a table, a list of steps or an example counts as one sentence
    because = "…"                    # why no test proves it: it asks for nothing, it is about Java, …
    only = "distributed"             # it is about this mode; else tests in both have to prove it
    but = "…"                        # where what is proven is not quite what it says
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "sentences"
MODES = ("standalone", "distributed")

_END = re.compile(r"(?<=[.!?])[)\"”]?\s+(?=[\"“`(A-Z])")
_ABBREVIATED = re.compile(r"(e\.g|i\.e|vs|etc)\.$")
_TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "\u2013": "-", "\xa0": " ", "`": None, "*": None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One sentence of a KIP; `number` counts from 1."""

    number: int
    section: str
    says: str
    because: str | None = None
    only: str | None = None
    but: str | None = None

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes in which it has to be proven."""
        return MODES if self.only is None else (self.only,)

    def has(self, quote: str) -> bool:
        """Whether `quote` is a part of it, in whole words."""
        return re.search(rf"(?<!\w){re.escape(plain(quote))}(?!\w)", plain(self.says)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kip:
    """One KIP."""

    number: int
    title: str
    begins: str
    ends: str
    digest: str
    sentences: tuple[Sentence, ...]

    def text(self) -> str:
        """Return all headings and sentences, in order."""
        parts, section = [], ""
        for sentence in self.sentences:
            if sentence.section != section:
                section = sentence.section
                parts.append(section)
            parts.append(sentence.says)
        return "\n".join(parts)


@cache
def kips() -> dict[int, Kip]:
    """Return all KIPs that are quoted, by number."""
    found = [_load(path) for path in sorted(FOLDER.glob("*.toml"))]
    return {kip.number: kip for kip in found}


def _load(path: Path) -> Kip:
    content = tomllib.loads(path.read_text("utf-8"))
    sentences, section = [], ""
    for number, each in enumerate(content.pop("sentence"), start=1):
        section = each.pop("section", section)
        sentences.append(Sentence(number=number, section=section, **each))
    return Kip(number=content.pop("kip"), sentences=tuple(sentences), **content)


def plain(text: str) -> str:
    """Return text without mark-up, curly quotes and line ends, so that quotes need not repeat those."""
    return " ".join(text.translate(_TYPOGRAPHY).split())


def split(paragraph: str) -> list[str]:
    """Split prose into sentences: after `.`, `!`, `?` before a capital, a quote or a bracket."""
    found: list[str] = []
    begin = 0
    for end in _END.finditer(paragraph):
        if not _ABBREVIATED.search(paragraph[begin : end.start()]):
            found.append(paragraph[begin : end.end()].strip())
            begin = end.end()
    return [*found, paragraph[begin:].strip()]


def digest(text: str) -> str:
    """Return the SHA-256 of the letters and digits of a text, whatever is between them."""
    return hashlib.sha256("".join(re.findall(r"[^\W_]", text)).encode()).hexdigest()


def part_of(text: str, kip: Kip) -> str:
    """Return the part of a KIP's text that is listed: from the last line `begins` to the line `ends`."""
    lines = [line.strip() for line in text.splitlines()]
    first = len(lines) - 1 - lines[::-1].index(kip.begins)
    last = lines.index(kip.ends, first) if kip.ends else len(lines)
    return "\n".join(lines[first:last])


def sentences_in(text: str) -> Iterator[str]:
    """Cut a text into its sentences; code between fences, and an item of a list, are never joined with others."""
    for number, block in enumerate(re.split(r"^```.*$", text, flags=re.MULTILINE)):
        if number % 2:
            yield block.strip()
            continue
        for line in block.splitlines():
            if line.strip():
                yield from split(line.strip())
