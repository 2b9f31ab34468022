"""Captures the results of Kafka's converters for `tests/golden/converters`.

    python -m scripts.harness.capture_converters

Writes `cases.json` (the cases of `converter_cases`) and three files for tests of the column path: the output of
JsonConverter and StringConverter (the cases of `converter_column_cases`), and the values that JsonConverter decodes
from the texts in `json_to_connect.json` of the current version. For a new version, first copy this file from the
previous version. Requires Java's compiler and the jars of `connect`; takes ten seconds.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from scripts.harness import converter_cases
from scripts.harness.capture_config_golden import GOLDEN, run_program
from scripts.harness.converter_cases import STORAGE_PACKAGE
from scripts.harness.converter_column_cases import JSON_CONFIGS, Pair, json_pairs, string_pairs
from scripts.harness.converter_json_cases import JSON_CONVERTER, make_decoding_case
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
"""Java classes by the names that `ConverterCases.java` prints."""

Case = dict[str, Any]
Config = dict[str, str]


def capture_results(cases: list[Case]) -> list[Any]:
    """Return Java's result for each case."""
    with tempfile.TemporaryDirectory(prefix="converters-") as directory:
        path = Path(directory) / "cases.json"
        path.write_text(json.dumps(cases), encoding="utf-8")
        results: list[Any] = run_program("ConverterCases.java", str(path))
    return results


def encode_rows(converter: str, pairs: dict[str, Pair], configs: list[Config]) -> list[Case]:
    """Return the encoded bytes or the error of each pair of a schema and a value, with each config."""
    rows = [(name, config) for name in pairs for config in configs]
    results = capture_results(
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
        {
            "id": name,
            **_schemas_column(config),
            "hex": _to_hex(result.get("data")),
            "error": result.get("error"),
        }
        for (name, config), result in zip(rows, results, strict=True)
    ]


def decode_rows(rows: list[Case]) -> list[Case]:
    """Return the rows with the values that JsonConverter decodes; containers have no text."""
    results = capture_results(
        [
            make_decoding_case(
                None if row["in"] is None else bytes.fromhex(row["in"]),
                {"schemas.enable": str(row["schemas"]).lower()},
            )
            for row in rows
        ]
    )
    return [
        {"in": row["in"], "schemas": row["schemas"], **_make_row(result)}
        for row, result in zip(rows, results, strict=True)
    ]


def _make_row(result: Case) -> Case:
    ((kind, inner),) = (result.get("value") or {None: None}).items()
    text = str(inner).lower() if kind == "boolean" else inner if kind in {None, "string"} else str(inner)
    is_scalar = kind not in {"bytes", "map", "list", "struct"}
    return {
        "text": text if is_scalar else None,
        "class": kind and CLASSES[kind],
        "schema": (result.get("schema") or {}).get("type"),
        "error": result.get("error"),
    }


def _schemas_column(config: Config) -> dict[str, bool]:
    return {"schemas": config["schemas.enable"] == "true"} if config else {}


def _to_hex(data: Case | None) -> str | None:
    if data is None:
        return None
    text: str = data["hex"] if "hex" in data else data["text"].encode().hex()
    return text


def write_lines(name: str, rows: list[Case]) -> None:
    """Write a JSON array, one element per line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=True) for row in rows)
    (GOLDEN / "converters" / CURRENT / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"Wrote {len(rows)} cases to {name}")


def main() -> None:
    """Capture all cases, and write one per line with its result."""
    cases = converter_cases.cases()
    results = zip(cases, capture_results(cases), strict=True)
    write_lines("cases.json", [{**case, "answer": result} for case, result in results])
    json_configs = [{"schemas.enable": "true"}, {"schemas.enable": "false"}]
    write_lines("json_from_connect.json", encode_rows(JSON_CONVERTER, json_pairs(), json_configs))
    write_lines(
        "string_from_connect.json", encode_rows(f"{STORAGE_PACKAGE}StringConverter", string_pairs(), [{}])
    )
    name = "json_to_connect.json"
    rows = json.loads((GOLDEN / "converters" / CURRENT / name).read_text("utf-8"))
    write_lines(name, decode_rows(rows))


if __name__ == "__main__":
    main()
