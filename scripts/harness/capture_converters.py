"""Captures what Kafka's converters make of cases, for `tests/golden/converters`.

    python -m scripts.harness.capture_converters

Writes `cases.json` (the cases of `converter_cases`) and three files that columns are compared with: what JsonConverter
and StringConverter encode (the cases of `converter_column_cases`), and what JsonConverter decodes: the texts of
`json_to_connect.json` of the current version, which has to be copied for a new one. Needs Java's compiler and the jars
of `connect`; takes ten seconds.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from scripts.harness import converter_cases
from scripts.harness.capture_config_golden import GOLDEN, printed
from scripts.harness.converter_cases import STORAGE
from scripts.harness.converter_column_cases import JSON_CONFIGS, Pair, json_pairs, string_pairs
from scripts.harness.converter_json_cases import JSON, decoded
from scripts.harness.java_connect import CURRENT

CLASSES = {
    "string": "String",
    "int": "Integer",
    "long": "Long",
    "double": "Double",
    "boolean": "Boolean",
    "bytes": "byte[]",
    "map": "HashMap",
    "list": "ArrayList",
    "struct": "Struct",
}
"""Java's classes by the names that `ConverterCases.java` prints."""

Case = dict[str, Any]
Config = dict[str, str]


def capture_answers(cases: list[Case]) -> list[Any]:
    """Return Java's answer to each case."""
    with tempfile.TemporaryDirectory(prefix="converters-") as directory:
        path = Path(directory) / "cases.json"
        path.write_text(json.dumps(cases), encoding="utf-8")
        answers: list[Any] = printed("ConverterCases.java", str(path))
    return answers


def encoded_rows(converter: str, pairs: dict[str, Pair], configs: list[Config]) -> list[Case]:
    """Return the bytes or the error of each pair with each config."""
    rows = [(name, config) for name in pairs for config in configs]
    answers = capture_answers(
        [
            {
                "converter": converter,
                "config": config | JSON_CONFIGS.get(name, {}),
                "header": False,
                "schema": pairs[name][0],
                "value": pairs[name][1],
            }
            for name, config in rows
        ]
    )
    return [
        {"id": name, **_shown(config), "hex": _hex(answer.get("data")), "error": answer.get("error")}
        for (name, config), answer in zip(rows, answers, strict=True)
    ]


def decoded_rows(rows: list[Case]) -> list[Case]:
    """Return the rows with what JsonConverter reads of their bytes now; the text of a container is left out."""
    answers = capture_answers(
        [
            decoded(
                None if row["in"] is None else bytes.fromhex(row["in"]),
                {"schemas.enable": str(row["schemas"]).lower()},
            )
            for row in rows
        ]
    )
    return [
        {"in": row["in"], "schemas": row["schemas"], **_read(answer)}
        for row, answer in zip(rows, answers, strict=True)
    ]


def _read(answer: Case) -> Case:
    ((kind, inner),) = (answer.get("value") or {None: None}).items()
    text = str(inner).lower() if kind == "boolean" else inner if kind in {None, "string"} else str(inner)
    scalar = kind not in {"bytes", "map", "list", "struct"}
    return {
        "text": text if scalar else None,
        "class": kind and CLASSES[kind],
        "schema": (answer.get("schema") or {}).get("type"),
        "error": answer.get("error"),
    }


def _shown(config: Config) -> dict[str, bool]:
    return {"schemas": config["schemas.enable"] == "true"} if config else {}


def _hex(data: Case | None) -> str | None:
    if data is None:
        return None
    text: str = data["hex"] if "hex" in data else data["text"].encode().hex()
    return text


def write_lines(name: str, rows: list[Case]) -> None:
    """Write a JSON array, an element a line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    (GOLDEN / "converters" / CURRENT / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(rows)} in {name}")


def main() -> None:
    """Write every case with its answer, a line each."""
    cases = converter_cases.cases()
    answers = zip(cases, capture_answers(cases), strict=True)
    write_lines("cases.json", [{**case, "answer": answer} for case, answer in answers])
    both = [{"schemas.enable": "true"}, {"schemas.enable": "false"}]
    write_lines("json_from_connect.json", encoded_rows(JSON, json_pairs(), both))
    write_lines("string_from_connect.json", encoded_rows(f"{STORAGE}StringConverter", string_pairs(), [{}]))
    name = "json_to_connect.json"
    rows = json.loads((GOLDEN / "converters" / CURRENT / name).read_text("utf-8"))
    write_lines(name, decoded_rows(rows))


if __name__ == "__main__":
    main()
