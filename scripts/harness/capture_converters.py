"""Captures what Kafka's converters make of the cases of `converter_cases`, for `tests/golden/converters`.

    python -m scripts.harness.capture_converters

Needs Java's compiler and the jars of `connect`; takes ten seconds.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from scripts.harness.capture_config_golden import GOLDEN, printed
from scripts.harness.converter_cases import cases
from scripts.harness.java_connect import CURRENT


def main() -> None:
    """Write every case with its answer, a line each."""
    asked = cases()
    with tempfile.TemporaryDirectory(prefix="converters-") as directory:
        path = Path(directory) / "cases.json"
        path.write_text(json.dumps(asked), encoding="utf-8")
        answers = printed("ConverterCases.java", str(path))
    lines = [
        json.dumps({**case, "answer": answer}, ensure_ascii=True)
        for case, answer in zip(asked, answers, strict=True)
    ]
    target = GOLDEN / "converters" / CURRENT / "cases.json"
    target.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    print(f"{len(lines)} cases")


if __name__ == "__main__":
    main()
