"""Captures the output of Kafka's classes for `tests/golden`: group protocol, signatures, offset files, properties.

    python -m scripts.harness.capture_bytes

Writes these files for the current version:

- `protocol/VERSION`: `group.json` and `signatures.json`
- `offsets/VERSION`: `java-*.bin` and `java-read.txt`
- `config/VERSION`: `properties.jsonl`

Before the first run for a new version, copy `kraal-*.bin` and `properties.jsonl` from the previous version. Java reads
the files `kraal-*.bin`, which Kraal wrote, and lists their entries in `java-read.txt`. Java also parses the texts in
`properties.jsonl` again. Takes a few seconds. Requires Java's compiler and the jars of `connect`.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from scripts.harness.capture_config_golden import GOLDEN, run_program
from scripts.harness.java_connect import CURRENT


def main() -> None:
    """Write all files."""
    protocol, offsets = GOLDEN / "protocol" / CURRENT, GOLDEN / "offsets" / CURRENT
    properties = GOLDEN / "config" / CURRENT / "properties.jsonl"
    texts = [json.loads(line)["text"] for line in properties.read_text("utf-8").split("\n") if line]
    with tempfile.NamedTemporaryFile("w", prefix="texts-", suffix=".json") as file:
        json.dump(texts, file)
        file.flush()
        results = run_program("ProtocolBytes.java", str(offsets), file.name)
    for name in ("group", "signatures"):
        _write(protocol / f"{name}.json", json.dumps(results[name], indent=2))
    lines = [
        line
        for name, pairs in results["read"].items()
        for line in (f"{name} {len(pairs)}", *(f"  {pair}" for pair in pairs))
    ]
    _write(offsets / "java-read.txt", "\n".join(lines))
    cases = [
        json.dumps({"properties": entries, "text": text}, sort_keys=True)
        for text, entries in zip(texts, results["properties"], strict=True)
    ]
    _write(properties, "\n".join(cases))


def _write(path: Path, text: str) -> None:
    path.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
