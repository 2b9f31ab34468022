"""`prove-damaged`: `kraal prove` must locate one damaged line of 10,000,000; Kraal only.

FileStreamSource and FileStreamSink copy a file of 10,000,000 lines. For each of 50 seeds, one line of the sink file is
dropped, doubled or changed; the proof must find exactly this difference, at the offset of the line. Then the file is
restored. A quick run has 300,000 lines and 6 seeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from scripts.bench.data.prove import drain
from scripts.bench.data.source import transfer
from scripts.bench.lab import Lab, say, sink_config
from scripts.bench.report import Case, Target
from scripts.harness.lines import LINE_BYTES_ON_DISK
from scripts.harness.processes import ScriptFailed

LINES: Final = 10_000_000
SEEDS: Final = 50
QUICK_SEEDS: Final = 6
_DAMAGE: Final = b"damaged"

Difference = tuple[list[int], list[int], int]
"""The offsets of missing and of repeated rows, and the number of unexpected rows."""


def run(lab: Lab) -> list[Case]:
    """Damage one line of the target for each seed, and check that the proof locates it."""
    lines = lab.options.times(LINES, lab.options.lines())
    file = lab.file(lines)
    worker = lab.start_warm(("kraal",))["kraal"]
    topic, target = lab.topic("prove-damaged"), lab.directory / "damaged.txt"
    transfer(lab, worker, file, topic, lines, {})
    sink = drain(lab, worker, sink_config(target, topic), lines)
    seed_count = lab.options.times(SEEDS, QUICK_SEEDS)
    located_count = 0
    for seed in range(seed_count):
        kind = random.Random(seed).choice(sorted(_DAMAGES))  # noqa: S311 - not for security
        line = random.Random(seed).randrange(lines - 1)  # noqa: S311 - as above
        expected, restore = _DAMAGES[kind](target, line)
        difference = _read_difference(worker.rest.prove(sink))
        restore()
        located_count += difference == expected
        say(f"seed {seed}: {kind} line {line}: {'located' if difference == expected else difference}")
    if _read_difference(worker.rest.prove(sink)) != ([], [], 0):
        raise ScriptFailed("The proof of the restored file found a difference.")
    target_count = Target(least=seed_count)
    return [
        Case("lines located", "lines", [], [float(located_count)], more_is_better=True, wanted=target_count)
    ]


def _read_difference(state: dict[str, Any]) -> Difference | str:
    result = state["result"]
    if result is None:
        return f"{state['state']}: {state['reason']}"
    missing, repeated = (
        [offset for span in result[kind]["offsets"] for offset in range(span["first"], span["last"] + 1)]
        for kind in ("missing", "repeated")
    )
    return missing, repeated, result["unexpected"]["rows"]


def _drop(target: Path, line: int) -> tuple[Difference, Callable[[], None]]:
    """Overwrite a line with the last one, and truncate the file; return the difference, and a function to restore."""
    size = target.stat().st_size
    dropped, last = _read(target, line * LINE_BYTES_ON_DISK), _read(target, size - LINE_BYTES_ON_DISK)
    _write(target, line * LINE_BYTES_ON_DISK, last)
    os.truncate(target, size - LINE_BYTES_ON_DISK)

    def restore() -> None:
        _write(target, size - LINE_BYTES_ON_DISK, last)
        _write(target, line * LINE_BYTES_ON_DISK, dropped)

    return ([line], [], 0), restore


def _duplicate(target: Path, line: int) -> tuple[Difference, Callable[[], None]]:
    """Append a copy of a line; return the same as `_drop`."""
    size = target.stat().st_size
    _write(target, size, _read(target, line * LINE_BYTES_ON_DISK))
    return ([], [line], 0), lambda: os.truncate(target, size)


def _change(target: Path, line: int) -> tuple[Difference, Callable[[], None]]:
    """Overwrite the beginning of a line; return the same as `_drop`."""
    start = line * LINE_BYTES_ON_DISK
    content = _read(target, start)
    _write(target, start, _DAMAGE)
    return ([line], [], 1), lambda: _write(target, start, content)


_DAMAGES: Final = {"drop": _drop, "duplicate": _duplicate, "change": _change}


def _read(target: Path, start: int) -> bytes:
    with target.open("rb") as file:
        file.seek(start)
        return file.read(LINE_BYTES_ON_DISK)


def _write(target: Path, start: int, content: bytes) -> None:
    with target.open("r+b") as file:
        file.seek(start)
        file.write(content)
