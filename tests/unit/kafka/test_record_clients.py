"""Tests that kafka-python is not used for records, because Kraal does not install the codecs of kafka-python."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
CLIENTS = {"KafkaConsumer", "KafkaProducer"}
ALLOWED_FILES = {
    Path("kraal/dead_letters/malformed_headers.py")
}  # confluent-kafka cannot return malformed header names
MODULES = {"kafka.codec", "kafka.consumer", "kafka.producer", "kafka.record"}


def imports(path: Path) -> Iterator[str]:
    """Yield the full name of each import in a file whose text contains `kafka`."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if "kafka" in text else ():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_kafka_python_neither_reads_nor_writes_records() -> None:
    forbidden_imports = [
        (path.relative_to(ROOT), name)
        for package in ("actors", "web", "kraal")
        for path in (ROOT / package).rglob("*.py")
        if path.relative_to(ROOT) not in ALLOWED_FILES
        for name in imports(path)
        if name.removeprefix("kafka.") in CLIENTS or ".".join(name.split(".")[:2]) in MODULES
    ]
    assert forbidden_imports == []
