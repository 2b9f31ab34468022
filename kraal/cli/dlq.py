"""`kraal dlq ls`, `show`, `replay`: dead letters of connectors."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from kraal.cli.dlq_kafka import find_connector, find_dead_letters, on_kafka, resolve_targets
from kraal.client import dead_letters as over_rest
from kraal.client.command import ClientGroup, NameType, output_option
from kraal.client.output import emit, emit_table, say
from kraal.client.rest import Rest
from kraal.core.progress import Progress
from kraal.dead_letters.reading import read_latest, read_letters
from kraal.dead_letters.records import DeadLetter, Target, format_text, from_json, to_json_object
from kraal.dead_letters.replay import replay as replay_letters
from kraal.dead_letters.selection import DeadLetterQueue, from_offset, list_topics, uncommitted_offsets

if TYPE_CHECKING:
    from kraal.dead_letters.kafka import Kafka

DEFAULT_LIMIT: Final = 10


class _DeadLetterSourceName(NameType):
    """Parameter type for a non-empty name of a connector or topic."""


_name_argument = click.argument("name", type=_DeadLetterSourceName(), metavar="CONNECTOR|TOPIC")
_topic_flag = click.option(
    "--topic", "is_topic", is_flag=True, help="Interpret the name as a topic; no worker is needed."
)
_partition_option = click.option(
    "--partition", type=click.IntRange(min=0), metavar="P", help="Partition; requires --offset."
)
_offset_option = click.option(
    "--offset", type=click.IntRange(min=0), metavar="O", help="Offset; requires --partition."
)


@click.group(
    "dlq",
    cls=ClientGroup,
    short_help="Show and replay dead letters.",
    examples=(
        "export KRAAL_BOOTSTRAP_SERVERS=localhost:9092",
        "kraal dlq ls",
        "kraal dlq show orders-sink",
        "kraal dlq replay orders-sink --dry-run",
        "kraal dlq replay orders-sink",
    ),
)
def dlq() -> None:
    """Show the records that connectors could not process, and write them back to their topics (KIP-298).

    With --bootstrap-servers, the commands connect to Kafka. Otherwise, they query the worker, which must be a Kraal
    worker.
    """


@dlq.command(
    "ls",
    short_help="List connectors and the number of their dead letters.",
    examples=("kraal dlq ls --bootstrap-servers localhost:9092", "kraal dlq ls -o json"),
)
@output_option
@on_kafka
def ls(rest: Rest, kafka: Kafka | None, *, style: str) -> None:
    """List the connectors that have a dead letter queue topic, with the number of records in that topic.

    LETTERS counts all records of the topic, even if several connectors share it; `-` means that the topic does not
    exist yet.
    """
    connectors = rest.get("connectors", query=[("expand", "info")])
    rows = [
        _rest_row(rest, name, topic) if kafka is None else _row(kafka, name, topic)
        for name, topic in list_topics(connectors)
    ]
    if style != "table":
        emit(rows, style)
        return
    emit_table(
        ("CONNECTOR", "TOPIC", "LETTERS", "LEFT TO REPLAY"),
        [["-" if cell is None else str(cell) for cell in row.values()] for row in rows],
        "No connector has a dead letter queue topic.",
    )


def _row(kafka: Kafka, name: str, topic: str) -> dict[str, Any]:
    letter_count = left_to_replay = None
    if topic in kafka.partitions:
        spans = kafka.spans(topic)
        letter_count = sum(span.count for span in spans.values())
        committed = kafka.committed_offsets(DeadLetterQueue(topic, name).group, topic)
        left_to_replay = sum(span.count for span in uncommitted_offsets(spans, committed).values())
    return {"connector": name, "topic": topic, "letters": letter_count, "left_to_replay": left_to_replay}


def _rest_row(rest: Rest, name: str, topic: str) -> dict[str, Any]:
    letters = over_rest.get_letters(rest, name, 1)
    return {
        "connector": name,
        "topic": topic,
        "letters": letters["letters"],
        "left_to_replay": letters["left_to_replay"],
    }


def _require_kafka(**options: bool) -> None:
    """Raise UsageError if an option is set that the REST API does not support."""
    for name, is_set in options.items():
        if is_set:
            raise click.UsageError(
                f"--{name.replace('_', '-')} requires --bootstrap-servers; without it, the worker's REST API is used."
            )


@dlq.command(
    "show",
    short_help="Print dead letters and the causes of failure.",
    examples=(
        "kraal dlq show orders-sink",
        "kraal dlq show orders-dead --topic --partition 0 --offset 17 --limit 1 --stack",
        "kraal dlq show orders-sink --limit 1000 --json | jq -r .error.message | sort | uniq -c",
    ),
)
@_name_argument
@_topic_flag
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=DEFAULT_LIMIT,
    show_default=True,
    metavar="N",
    help="Maximum number of records.",
)
@_partition_option
@_offset_option
@click.option("--stack", is_flag=True, help="Also print stack traces.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object per line with all details.")
@output_option
@on_kafka
def show(
    rest: Rest,
    kafka: Kafka | None,
    *,
    name: str,
    is_topic: bool,
    limit: int,
    partition: int | None,
    offset: int | None,
    stack: bool,
    is_json: bool,
    style: str,
) -> None:
    """Print dead letters: the latest ones, or those starting at --partition and --offset.

    With -o json or yaml, a list with all details is printed at the end; --json prints each letter when it is read.
    """
    if is_json and style != "table":
        raise click.UsageError("--json cannot be combined with -o.")
    start = _parse_position(partition, offset)
    letters: Iterable[DeadLetter]
    if kafka is None:
        _require_kafka(topic=is_topic, partition=start is not None, limit=limit > over_rest.MAX_SHOWN)
        letters = [
            from_json(fields) for fields in reversed(over_rest.get_letters(rest, name, limit)["shown"])
        ]
    else:
        queue = find_dead_letters(
            kafka, name, find_connector(rest, name, is_topic=is_topic), is_topic=is_topic
        )
        spans = kafka.spans(queue.topic)
        if start:
            letters = islice(read_letters(kafka, queue, from_offset(spans, queue.topic, *start)), limit)
        else:
            letters = read_latest(functools.partial(read_letters, kafka, queue), spans, limit).letters
    if style != "table":
        emit([_as_data(letter) for letter in letters], style)
    elif not _print_each(letters, stack=stack, is_json=is_json):
        click.echo("No dead letters.", err=True)


def _print_each(letters: Iterable[DeadLetter], *, stack: bool, is_json: bool) -> int:
    """Print dead letters as they are read; return their number."""
    count = 0
    for letter in letters:
        if is_json:
            click.echo(json.dumps(_as_data(letter)))  # ASCII, so control characters are escaped
        else:
            say("\n".join([*([""] if count else []), *format_text(letter, stack=stack)]))
        count += 1
    return count


def _as_data(letter: DeadLetter) -> dict[str, Any]:
    sizes = {"truncated": dict(letter.truncated)} if letter.truncated else {}
    return {**to_json_object(letter), **sizes}


def _parse_position(partition: int | None, offset: int | None) -> tuple[int, int] | None:
    if (partition is None) != (offset is None):
        raise click.UsageError("Specify both --partition and --offset, or neither.")
    return None if partition is None or offset is None else (partition, offset)


@dlq.command(
    "replay",
    short_help="Write dead letters back to their topics.",
    examples=(
        "kraal dlq replay orders-sink --dry-run",
        "kraal dlq replay orders-sink",
        "kraal dlq replay orders-sink --limit 10 --to orders-retry",
        "kraal dlq replay orders-dead --topic --allow-topic orders --partition 0 --offset 17",
    ),
)
@_name_argument
@_topic_flag
@click.option(
    "--to", metavar="TOPIC", help="Write to this topic, partitioned by key, instead of the original topics."
)
@click.option(
    "--allow-topic",
    "allowed_topics",
    multiple=True,
    metavar="TOPIC",
    help="Accept this topic as the original topic of a letter, in addition to the sink's topics (repeatable).",
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of records (default: all)."
)
@_partition_option
@_offset_option
@click.option("--from-beginning", is_flag=True, help="Include letters that were replayed before.")
@click.option("--dry-run", is_flag=True, help="Print the target of each record without writing anything.")
@output_option
@on_kafka
def replay(
    rest: Rest,
    kafka: Kafka | None,
    *,
    name: str,
    is_topic: bool,
    to: str | None,
    allowed_topics: tuple[str, ...],
    limit: int | None,
    partition: int | None,
    offset: int | None,
    from_beginning: bool,
    dry_run: bool,
    style: str,
) -> None:
    """Write dead letters back to their original topic and partition, without the error headers.

    The original topic is read from a header, which any producer can forge. It must therefore be a topic of the sink, or
    one of --allow-topic. With --topic, --allow-topic or --to is required. Internal topics are never written to.

    The progress is stored as offsets of a consumer group, and the next replay continues there. With --partition and
    --offset, one letter (or --limit letters) from this position is replayed, and the progress is not stored. Letters
    that arrive during a replay are left for the next replay. A record that fails again becomes a new dead letter.
    """
    start = _parse_position(partition, offset)
    if start and from_beginning:
        raise click.UsageError("Specify either --from-beginning, or --partition and --offset.")
    if kafka is None:
        _require_kafka(
            topic=is_topic,
            to=to is not None,
            allow_topic=bool(allowed_topics),
            partition=start is not None,
            from_beginning=from_beginning,
        )
        _replay_over_rest(rest, name, limit, dry_run=dry_run, style=style)
        return
    connector = find_connector(rest, name, is_topic=is_topic)
    queue = find_dead_letters(kafka, name, connector, is_topic=is_topic)
    targets = resolve_targets(rest, kafka, connector, to, allowed_topics)
    spans = kafka.spans(queue.topic)
    if start:
        spans, limit = from_offset(spans, queue.topic, *start), limit or 1
    elif not from_beginning:
        spans = uncommitted_offsets(spans, kafka.committed_offsets(queue.group, queue.topic))
    is_recorded = start is None and not dry_run
    report = _ReplayReport(queue.topic, dry_run=dry_run, style=style)
    chunks = replay_letters(
        kafka, queue, spans, targets, limit=limit, write=not dry_run, commit_progress=is_recorded
    )
    total = sum(span.count for span in spans.values())
    with Progress("Replaying dead letters", min(total, limit or total)) as progress:
        for chunk in chunks:
            if dry_run:
                for letter, target in chunk:
                    report.report_target(letter.position, target)
            report.written_counts.update(target.topic for _, target in chunk)
            progress.set_done(report.written_counts.total())
    report.print_totals()


def _replay_over_rest(rest: Rest, name: str, limit: int | None, *, dry_run: bool, style: str) -> None:
    letters = over_rest.get_letters(rest, name, 1)
    report = _ReplayReport(letters["topic"], dry_run=dry_run, style=style)
    topic, remaining_count = letters["topic"], letters["left_to_replay"]
    total = min(remaining_count, limit or remaining_count)
    with Progress("Replaying dead letters", total) as progress:
        for response in over_rest.replay_in_requests(rest, name, total, dry_run=dry_run):
            report.written_counts.update(response["written"])
            progress.set_done(report.written_counts.total())
            if dry_run:
                for entry in response["targets"]:
                    position = f"{topic}-{entry['partition']}@{entry['offset']}"
                    report.report_target(position, Target(entry["to_topic"], entry["to_partition"]))
                report.report_omitted(report.written_counts.total() - len(response["targets"]))
    report.print_totals()


class _ReplayReport:
    """The output of a replay or dry run: lines during the replay, or a single object at the end."""

    def __init__(self, topic: str, *, dry_run: bool, style: str) -> None:
        self.written_counts: Counter[str] = Counter()
        """Numbers of written letters by target topic."""
        self._topic = topic
        self._dry_run = dry_run
        self._style = style
        self._targets: list[dict[str, str]] = []

    def report_target(self, position: str, target: Target) -> None:
        """Report the target of a letter."""
        if self._style == "table":
            say(f"{position} -> {target}")
        else:
            self._targets.append({"from": position, "to": str(target)})

    def report_omitted(self, count: int) -> None:
        """Report the number of letters for which no line is printed."""
        if count > 0 and self._style == "table":
            say(f"… and {count} more")

    def print_totals(self) -> None:
        """Print the totals."""
        if self._style != "table":
            report = {"topic": self._topic, "written": dict(self.written_counts), "dry_run": self._dry_run}
            emit({**report, "targets": self._targets} if self._dry_run else report, self._style)
            return
        if not self.written_counts:
            click.echo(f"Nothing to replay in {self._topic}.", err=True)
        for topic, count in sorted(self.written_counts.items()):
            letters = "1 dead letter" if count == 1 else f"{count} dead letters"
            verb = "would be written" if self._dry_run else "written"
            say(f"{letters} from {self._topic} {verb} to {topic}")
