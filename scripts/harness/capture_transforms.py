"""Captures the results of Connect's transforms and predicates for `tests/golden/transforms`.

    python -m scripts.harness.capture_transforms

Writes two files in `transforms/VERSION`. `chains.json` has the cases of `scripts.harness.transform_cases` with
Connect's results. `definitions.json` has the config definition of each class, and the values that its validators
reject. Takes a few seconds. Requires Java's compiler and the jars of `connect`.
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


def run_program(*arguments: str) -> Any:
    """Run the Java program with the time zone UTC and the English locale; return the JSON that it prints."""
    java = [str(find_java()), "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"]
    command = [*java, "-cp", class_path(), str(PROGRAM), *arguments]
    completed = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True, timeout=120)
    return json.loads(completed.stdout)


def write(name: str, text: str) -> None:
    """Write a file, creating its directory."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    (GOLDEN / name).write_text(text, encoding="utf-8")


def main() -> None:
    """Run the cases in Java, and write them with the results."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as cases_file:
        json.dump(CASES, cases_file)
        cases_file.flush()
        results = run_program(cases_file.name)
        lines = (
            json.dumps(case | result, ensure_ascii=False) for case, result in zip(CASES, results, strict=True)
        )
        write("chains.json", "[\n" + ",\n".join(lines) + "\n]\n")
        names = sorted(
            entry.name for group in (TRANSFORMS_GROUP, PREDICATES_GROUP) for entry in installed(group)
        )
        names = [name for name in names if name.startswith("org.apache.kafka.")]
        write("definitions.json", json.dumps(run_program(cases_file.name, *names), indent=1) + "\n")


if __name__ == "__main__":
    main()
