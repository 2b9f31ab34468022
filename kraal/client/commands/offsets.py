"""`kraal offsets get`, `alter`, `reset`: where connectors go on (KIP-875)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from kraal.client.commands.command import (
    ClientGroup,
    asking,
    emit,
    emit_table,
    name_argument,
    output_option,
    say,
)
from kraal.client.manifests import STDIN, YAML
from kraal.client.rest import Refused, Rest
from kraal.client.yaml_reader import YamlError, read_yaml, typed
from kraal.errors import BadRequest, KraalError

_SINK = {"kafka_topic", "kafka_partition"}


@click.group(
    "offsets",
    cls=ClientGroup,
    short_help="See and change where connectors go on.",
    examples=(
        "kraal offsets get orders-source",
        "kraal stop orders-source --wait",
        'kraal offsets alter orders-source --set \'{"filename": "orders.txt"}\' \'{"position": 0}\'',
        "kraal resume orders-source",
    ),
)
def offsets() -> None:
    """See and change where connectors go on: source positions, or sinks' committed offsets (KIP-875)."""


@offsets.command(
    "get",
    examples=(
        "kraal offsets get orders-source",
        "kraal offsets get orders-source -o json > offsets.json",
    ),
)
@name_argument
@output_option
@asking
def get(rest: Rest, name: str, *, style: str) -> None:
    """Show a connector's offsets, in any state of it. What -o json prints is what `alter -f` reads."""
    found = _asked(rest, "GET", name)
    if style != "table":
        emit(found, style)
        return
    entries = found["offsets"]
    is_sink = bool(entries) and all(set(each["partition"]) == _SINK for each in entries)
    head = ("TOPIC", "PARTITION", "OFFSET") if is_sink else ("PARTITION", "OFFSET")
    emit_table(head, _rows(entries, is_sink=is_sink), "No offsets.")


def _rows(entries: Sequence[Any], *, is_sink: bool) -> Iterator[tuple[str, ...]]:
    if is_sink:
        rows = [
            (each["partition"]["kafka_topic"], each["partition"]["kafka_partition"], each["offset"])
            for each in entries
        ]
        for topic, partition, offset in sorted(rows, key=lambda row: (str(row[0]), int(row[1]))):
            yield str(topic), str(partition), str((offset or {}).get("kafka_offset", "-"))
    else:
        yield from sorted((_compact(each["partition"]), _compact(each["offset"])) for each in entries)


def _compact(value: Any) -> str:
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
    help="JSON, or YAML by extension, as `get` prints; - for standard input.",
)
@click.option(
    "--set",
    "pairs",
    nargs=2,
    multiple=True,
    metavar="PARTITION OFFSET",
    help="Both as JSON; the offset null forgets that partition. Repeatable.",
)
@asking
def alter(rest: Rest, name: str, *, path: str | None, pairs: tuple[tuple[str, str], ...]) -> None:
    """Set offsets of a STOPPED connector. Partitions that are not named keep theirs."""
    entries = [{"partition": _json(key), "offset": _json(value)} for key, value in pairs]
    if (path is None) == (not entries):
        raise click.UsageError("Give either -f or --set.")
    body = {"offsets": entries} if path is None else _read(path)
    say(f"{name}: {_asked(rest, 'PATCH', name, body)['message']}")


@offsets.command(
    "reset",
    examples=(
        "kraal stop orders-source --wait && kraal offsets reset orders-source && kraal resume orders-source",
    ),
)
@name_argument
@asking
def reset(rest: Rest, name: str) -> None:
    """Forget all offsets of a STOPPED connector: it begins anew when it is resumed."""
    say(f"{name}: {_asked(rest, 'DELETE', name)['message']}")


def _asked(rest: Rest, method: str, name: str, body: Any = None) -> Any:
    """Ask for the offsets of a connector; errors name it, and say what to do. Raises KraalError."""
    try:
        return rest.ask(method, "connectors", name, "offsets", body=body)
    except Refused as error:
        hint = ""
        if error.no_such_path:
            hint = "; this worker has no offsets over REST"
        elif "STOPPED state" in error.text:
            hint = f" (kraal stop {name} --wait)"
        raise KraalError(f"{name}: {error}{hint}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise click.UsageError(f"{text} is no JSON: {exc}.") from exc


def _read(path: str) -> Any:
    """Read what `get` prints. Raises BadRequest, naming the file."""
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadRequest(f"Cannot read '{path}': {exc}.") from exc
    try:
        if Path(path).suffix.lower() in YAML:
            documents = read_yaml(text, typed)
            content = documents[0] if len(documents) == 1 else None
        else:
            content = json.loads(text)
    except (YamlError, ValueError, RecursionError) as exc:
        raise BadRequest(f"'{path}' cannot be read: {exc}.") from exc
    if not isinstance(content, dict) or not isinstance(content.get("offsets"), list):
        raise BadRequest(f"""'{path}' is not what `kraal offsets get -o json` prints: {{"offsets": […]}}.""")
    return {"offsets": content["offsets"]}
