"""Captures what Java's transforms and predicates make of records, for `tests/golden/transforms`.

    python -m scripts.harness.capture_transforms

Writes `transforms/VERSION/chains.json`: the cases of `scripts.harness.transform_cases` with real Java's answers, and
`definitions.json`: what each class defines as its config, and what its validators refuse. Takes seconds; needs
Java's compiler and the jars of `connect`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from kraal.jars.java import find_java
from kraal.plugins.entries import PREDICATES_GROUP, TRANSFORMS_GROUP, installed
from scripts.harness.java_connect import CURRENT, class_path
from scripts.harness.transform_cases import CASES

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "transforms" / CURRENT
PROGRAM = Path(__file__).with_name("TransformCases.java")


def printed(*arguments: str) -> Any:
    """Return the JSON that the Java program prints; its clock is UTC's and its names are English."""
    java = [str(find_java()), "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"]
    command = [*java, "-cp", class_path(), str(PROGRAM), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=120)
    return json.loads(done.stdout)


def write(name: str, text: str) -> None:
    """Write a file, also its directory."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / name).write_text(text, encoding="utf-8")


def main() -> None:
    """Ask Java, and write its answers next to the questions."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as asked:
        json.dump(CASES, asked)
        asked.flush()
        answers = printed(asked.name)
        lines = (
            json.dumps(case | answer, ensure_ascii=False) for case, answer in zip(CASES, answers, strict=True)
        )
        write("chains.json", "[\n" + ",\n".join(lines) + "\n]\n")
        names = sorted(
            entry.name for group in (TRANSFORMS_GROUP, PREDICATES_GROUP) for entry in installed(group)
        )
        names = [name for name in names if name.startswith("org.apache.kafka.")]
        write("definitions.json", json.dumps(printed(asked.name, *names), indent=1) + "\n")


if __name__ == "__main__":
    main()
