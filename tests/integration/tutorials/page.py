"""The steps of a tutorial, as a reader takes them from the page.

- A block of bash is entered in the first terminal, or in the one that its title names: `title="Terminal 2"`. Its
  commands end, except in other terminals than the first.
- A block of text below it is what the terminal shows. `…` stands for any text of a line, or, alone, for any lines.
- Any other block has a title, which is the name of the file that the reader saves it as. A block of sh is not entered.
- `Press Ctrl-C in terminal 2` is what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

FIRST: Final = 1
ANY: Final = "…"
_FOUND: Final = re.compile(
    r"^```(?P<language>\w+)(?P<options>.*)\n(?P<text>(?:.*\n)*?)```$|Press Ctrl-C in terminal (?P<number>\d)",
    re.MULTILINE,
)
_TITLE: Final = re.compile(r'^ title="([^"]+)"$')
_TERMINAL: Final = re.compile(r"Terminal (\d)")
_LOOKS: Final = (
    "cat ",
    "curl -s http",
    "head ",
    "ls ",
    "tail ",
    "wc ",
    "kraal describe ",
    "kraal dlq show ",
    "kraal ls",
    "kraal offsets get ",
    "kraal status",
    "kraal topics",
    "psql -d copy ",
)


class PageFault(Exception):
    """A page has a block that is not a step; the message contains the block."""


@dataclass(frozen=True)
class Command:
    """Commands for a terminal, and their expected output if the page shows it."""

    text: str
    terminal: int = FIRST
    shown: str | None = None

    @property
    def only_looks(self) -> bool:
        """Whether the commands may be repeated until their output matches the page."""
        return all(line.startswith(_LOOKS) and ">" not in line for line in self.text.splitlines())


@dataclass(frozen=True)
class File:
    """A file to save, with its path relative to the first terminal's directory."""

    name: str
    text: str


@dataclass(frozen=True)
class Interrupt:
    """Ctrl-C in a terminal."""

    terminal: int


Step = Command | File | Interrupt


def steps(page: str) -> list[Step]:
    """Return the steps of a Markdown page. Raises PageFault."""
    found: list[Step] = []
    for step in _each(page):
        match step:
            case str() as shown:
                before = found[-1] if found else None
                if not isinstance(before, Command) or before.shown is not None:
                    raise PageFault(f"There is no command above this output: {shown}")
                found[-1] = replace(before, shown=shown)
            case _:
                found.append(step)
    return found


def _each(page: str) -> Iterator[Step | str]:
    for block in _FOUND.finditer(page):
        if block["number"]:
            yield Interrupt(int(block["number"]))
            continue
        title = _TITLE.match(block["options"])
        name, text = title[1] if title else None, block["text"]
        if block["language"] == "bash":
            terminal = _TERMINAL.fullmatch(name or "")
            yield Command(text, int(terminal[1]) if terminal else FIRST)
        elif block["language"] == "text":
            yield text
        elif name:
            yield File(name, text)
        elif block["language"] != "sh":
            raise PageFault(f"This block is neither a command nor a file with a title: {text}")


def pattern(shown: str) -> re.Pattern[str]:
    """Return a regular expression for the output shown on a page."""
    lines = [
        r"(?:.*\n)*?" if line.strip() == ANY else rf"{'.*'.join(map(re.escape, line.split(ANY)))}[ ]*\n"
        for line in shown.splitlines()
    ]
    return re.compile("".join(lines))
