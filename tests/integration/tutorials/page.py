"""A parser for the steps of a tutorial page.

- A `bash` block is entered in the first terminal, or in the terminal of its title: `title="Terminal 2"`. Commands in
  the first terminal must end.
- A `text` block below a `bash` block is the expected output. `…` stands for any text within a line, and a line that
  contains only `…` stands for any lines.
- Any other block must have a title, which is the name of the file to save. An `sh` block without a title is ignored.
- `Press Ctrl-C in terminal 2` interrupts the command in this terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

FIRST_TERMINAL: Final = 1
ELLIPSIS: Final = "…"
_STEP: Final = re.compile(
    r"^```(?P<language>\w+)(?P<options>.*)\n(?P<text>(?:.*\n)*?)```$|Press Ctrl-C in terminal (?P<number>\d)",
    re.MULTILINE,
)
_TITLE: Final = re.compile(r'^ title="([^"]+)"$')
_TERMINAL: Final = re.compile(r"Terminal (\d)")
_READ_ONLY: Final = (
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
    "python rows.py ",
)


class PageFault(Exception):
    """A block of a page is not a step. The message contains the block."""


@dataclass(frozen=True)
class Command:
    """Commands for a terminal, and the expected output if the page shows it."""

    text: str
    terminal: int = FIRST_TERMINAL
    expected_output: str | None = None

    @property
    def is_read_only(self) -> bool:
        """Whether the commands may be repeated until their output matches the page."""
        return all(line.startswith(_READ_ONLY) and ">" not in line for line in self.text.splitlines())


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
    result: list[Step] = []
    for step in _parse_blocks(page):
        match step:
            case str() as output:
                previous_step = result[-1] if result else None
                if not isinstance(previous_step, Command) or previous_step.expected_output is not None:
                    raise PageFault(f"There is no command above this output: {output}")
                result[-1] = replace(previous_step, expected_output=output)
            case _:
                result.append(step)
    return result


def _parse_blocks(page: str) -> Iterator[Step | str]:
    for block in _STEP.finditer(page):
        if block["number"]:
            yield Interrupt(int(block["number"]))
            continue
        title = _TITLE.match(block["options"])
        name, text = title[1] if title else None, block["text"]
        if block["language"] == "bash":
            terminal = _TERMINAL.fullmatch(name or "")
            yield Command(text, int(terminal[1]) if terminal else FIRST_TERMINAL)
        elif block["language"] == "text":
            yield text
        elif name:
            yield File(name, text)
        elif block["language"] != "sh":
            raise PageFault(f"This block is neither a command nor a file with a title: {text}")


def pattern(output: str) -> re.Pattern[str]:
    """Return a regular expression for the output shown on a page."""
    lines = [
        r"(?:.*\n)*?"
        if line.strip() == ELLIPSIS
        else rf"{'.*'.join(map(re.escape, line.split(ELLIPSIS)))}[ ]*\n"
        for line in output.splitlines()
    ]
    return re.compile("".join(lines))
