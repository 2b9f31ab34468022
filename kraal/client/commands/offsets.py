"""`kraal offsets get`, `alter`, `reset`: show and change the offsets of connectors (KIP-875)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from kraal.client.command import ClientGroup, name_argument, output_option, with_rest
from kraal.client.manifests import STDIN, YAML_SUFFIXES
from kraal.client.output import emit, emit_table, say
from kraal.client.rest import RequestRejected, Rest
from kraal.client.status_tables import NONE
from kraal.core.errors import BadRequest, KraalError

_SINK_PARTITION_KEYS = {"kafka_topic", "kafka_partition"}


@click.group(
    "offsets",
    cls=ClientGroup,
    short_help="Show and change the offsets of connectors.",
    examples=(
        "kraal offsets get orders-source",
        "kraal stop orders-source --wait",
        'kraal offsets alter orders-source --set \'{"filename": "orders.txt"}\' \'{"position": 0}\'',
        "kraal resume orders-source",
    ),
)
def offsets() -> None:
    """Show and change the offsets of connectors: source offsets, or committed offsets of sinks (KIP-875)."""


@offsets.command(
    "get",
    short_help="Show the offsets of a connector, and the lag of a sink.",
    examples=(
        "kraal offsets get orders-source",
        "kraal offsets get orders-source -o json > offsets.json",
    ),
)
@name_argument
@output_option
@with_rest
def get(rest: Rest, name: str, *, style: str) -> None:
    """Show the offsets of a connector in any state, and the lag of a sink (Kraal workers only).

    `kraal offsets alter -f` reads the output of -o json.
    """
    response = _request(rest, "GET", name, query=[("expand", "lag")])
    if style != "table":
        emit(response, style)
        return
    entries = response["offsets"]
    is_sink = bool(entries) and all(set(entry["partition"]) == _SINK_PARTITION_KEYS for entry in entries)
    head = ("TOPIC", "PARTITION", "OFFSET", "LAG") if is_sink else ("PARTITION", "OFFSET")
    emit_table(head, _rows(entries, is_sink=is_sink), "No offsets.")


def _rows(entries: Sequence[Any], *, is_sink: bool) -> Iterator[tuple[str, ...]]:
    if is_sink:
        rows = [
            (entry["partition"]["kafka_topic"], entry["partition"]["kafka_partition"], entry)
            for entry in entries
        ]
        for topic, partition, entry in sorted(rows, key=lambda row: (str(row[0]), int(row[1]))):
            lag = entry.get("lag")
            offset = (entry["offset"] or {}).get("kafka_offset", NONE)
            yield str(topic), str(partition), str(offset), NONE if lag is None else str(lag)
    else:
        yield from sorted(
            (_compact_json(entry["partition"]), _compact_json(entry["offset"])) for entry in entries
        )


def _compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@offsets.command(
    "alter",
    examples=(
        "kraal offsets alter orders-source -f offsets.json",
        'kraal offsets alter orders-source --set \'{"filename": "orders.txt"}\' \'{"position": 0}\'',
        'kraal offsets alter orders-sink --set \'{"kafka_topic": "t", "kafka_partition": 0}\' \'{"kafka_offset": 10}\'',
    ),
)
@name_argument
@click.option(
    "-f",
    "--file",
    "path",
    metavar="FILE",
    help="Output of `kraal offsets get` as JSON, or as YAML (.yaml, .yml); - for standard input.",
)
@click.option(
    "--set",
    "pairs",
    nargs=2,
    multiple=True,
    metavar="PARTITION OFFSET",
    help="Partition and offset as JSON; the offset null resets the partition (repeatable).",
)
@with_rest
def alter(rest: Rest, name: str, *, path: str | None, pairs: tuple[tuple[str, str], ...]) -> None:
    """Alter offsets of a STOPPED connector. Other partitions keep their offsets."""
    entries = [{"partition": _parse_json(key), "offset": _parse_json(value)} for key, value in pairs]
    if (path is None) == (not entries):
        raise click.UsageError("Specify either -f or --set.")
    body = {"offsets": entries} if path is None else _read_offsets_file(path)
    say(f"{name}: {_request(rest, 'PATCH', name, body)['message']}")


@offsets.command(
    "reset",
    short_help="Reset all offsets of a STOPPED connector.",
    examples=(
        "kraal stop orders-source --wait && kraal offsets reset orders-source && kraal resume orders-source",
    ),
)
@name_argument
@with_rest
def reset(rest: Rest, name: str) -> None:
    """Reset all offsets of a STOPPED connector, which then starts without offsets when it is resumed."""
    say(f"{name}: {_request(rest, 'DELETE', name)['message']}")


def _request(
    rest: Rest, method: str, name: str, body: Any = None, query: Sequence[tuple[str, str]] = ()
) -> Any:
    """Send an offsets request. Raises KraalError with the connector name and a hint."""
    try:
        return rest.ask(method, "connectors", name, "offsets", body=body, query=query)
    except RequestRejected as error:
        hint = ""
        if error.is_unknown_endpoint:
            hint = "; this worker does not support offset requests"
        elif "STOPPED state" in error.text:
            hint = f" (kraal stop {name} --wait)"
        raise KraalError(f"{name}: {error}{hint}", hint="" if hint else error.hint) from error


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise click.UsageError(f"Invalid JSON '{text}': {exc}.") from exc


def _read_offsets_file(path: str) -> Any:
    """Read a file with the output of `kraal offsets get`. Raises BadRequest with the file name."""
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadRequest(f"Cannot read '{path}': {exc}.") from exc
    from kraal.config.yaml_text import convert_scalar, read_yaml  # noqa: PLC0415 - late: most commands need no YAML

    try:
        if Path(path).suffix.lower() in YAML_SUFFIXES:
            documents = read_yaml(text, convert_scalar)
            content = documents[0] if len(documents) == 1 else None
        else:
            content = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise BadRequest(f"Cannot parse '{path}': {exc}.") from exc
    if not isinstance(content, dict) or not isinstance(content.get("offsets"), list):
        raise BadRequest(
            f"""Invalid content of '{path}'; expected {{"offsets": […]}} as `kraal offsets get -o json` prints it."""
        )
    return {"offsets": [_without_lag(entry) for entry in content["offsets"]]}


def _without_lag(entry: Any) -> Any:
    return {key: entry[key] for key in entry if key != "lag"} if isinstance(entry, dict) else entry
