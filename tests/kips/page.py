"""docs/kips.md: sentence by sentence, what proves it. Made of the lists and the tests; `python -m tests.kips`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.kips.quotes import FOLDER, proofs
from tests.kips.sentences import MODES, Kip, Sentence, digest, kips, part_of, plain

PAGE = FOLDER.parent.parent / "docs" / "kips.md"
SHOWN = 110
"""Characters of a sentence that the page shows."""
HEAD = """\
# The KIPs, sentence by sentence
Each sentence of the sections on public interfaces and on proposed changes, and what proves it: the name of a test that
quotes it. The tests are in `tests/kips/`; they go through the REST API of one standalone worker and of a group of
three, in virtual time. A sentence that is about one of the two modes says so. This page is made of them:
`python -m tests.kips`. Where Kraal differs from Java for a KIP's sake, [compat](compat.md) says it.
"""


def page() -> str:
    """Return what the page should be."""
    return HEAD + "".join(line + "\n" for kip in kips().values() for line in _chapter(kip))


def _chapter(kip: Kip) -> Iterator[str]:
    proven = [sentence for sentence in kip.sentences if sentence.because is None]
    yield f"\n## KIP-{kip.number}: {kip.title}"
    yield f"{len(proven)} sentences are proven; {len(kip.sentences) - len(proven)} ask for nothing that can be.\n"
    yield "| sentence | proven by |"
    yield "|---|---|"
    section = ""
    for sentence in kip.sentences:
        if sentence.section != section:
            section = sentence.section
            yield f"| **{section}** | |"
        yield f"| {_short(sentence.says)} | {_proof(kip, sentence)} |"


def _short(text: str) -> str:
    line = plain(text).removeprefix("- ").removeprefix("• ")
    shown = line if len(line) <= SHOWN else line[:SHOWN].rsplit(" ", 1)[0] + " …"
    return "".join(f"\\{c}" if c in "|<>[]{}_*" else c for c in shown)


def _proof(kip: Kip, sentence: Sentence) -> str:
    if sentence.because is not None:
        return f"no test: {sentence.because}"
    found = dict.fromkeys(quote.test.partition("::")[2] for quote in proofs(kip.number, sentence))
    tests = ", ".join(f"`{name.removeprefix('test_')}`" for name in found)
    mode = f" ({sentence.only})" if sentence.modes != MODES else ""
    return tests + mode + (f"; {sentence.but}" if sentence.but else "")


def compare(folder: Path) -> list[str]:
    """Compare the lists with the KIPs' texts in a folder; return what differs, as sentences for people."""
    found = []
    for kip in kips().values():
        paths = list(folder.glob(f"KIP-{kip.number}-*.txt"))
        if not paths:
            found.append(f"there is no KIP-{kip.number}-….txt in {folder}")
        elif digest(part_of(paths[0].read_text("utf-8"), kip)) != kip.digest:
            found.append(f"KIP-{kip.number} says something else than {paths[0]}")
    return found
