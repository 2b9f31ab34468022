"""`/connectors/{c}/dead-letters`: records that a connector could not process, and their replay. Kraal's addition.

Any worker can handle a request: it reads from Kafka with its own client settings, on two threads and within limits.
A replay writes letters and then commits its progress to the consumer group that `kraal dlq replay` uses.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kraal.cluster.views import rest as view
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.errors import BadRequest, Conflict, NotFound, RetryableConflict, Unavailable
from kraal.core.ids import Config, ConnectorName
from kraal.core.secrets import secrets
from kraal.dead_letters.api import KafkaUnavailable, LettersKafka, OffsetRange
from kraal.dead_letters.reading import SearchLimitExceeded, SearchResult, read_latest
from kraal.dead_letters.records import DeadLetter, to_json_object, truncate
from kraal.dead_letters.replay import replay
from kraal.dead_letters.selection import DeadLetterQueue, NoDeadLetters, find_topic, uncommitted_offsets
from kraal.dead_letters.targets import CannotReplay, Targets, find_targets
from web.middleware.admission import LimitedResource
from web.openapi.dead_letters import DEAD_LETTERS, MAX_REPLAYED, MAX_SHOWN, REPLAY, REPLAY_RESULT
from web.openapi.operation import Operation, Query
from web.rendering import json_response, to_json
from web.requests.blocking_calls import BlockingCalls
from web.requests.body import ReplayRequest, parse_replay, read_body
from web.requests.paths import connector_name
from web.resource import Endpoint, endpoint, live_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

OpenKafka = Callable[[Config], AbstractContextManager[LettersKafka]]
"""Connects to the Kafka cluster for a connector config. Raises NoDeadLetters if the connector uses another cluster."""

THREADS: Final = 2
_DEFAULT_SHOWN: Final = 10
_MAX_FIELD_BYTES: Final = 4_096
"""Maximum size of each key, value and header in a response."""
_MAX_BODY_BYTES: Final = 1024 * 1024
"""Maximum total size of the letters in a response."""
_MAX_SEARCHED: Final = 10_000
"""Number of offsets per partition after which the search for letters stops; connectors may share a topic."""
_MAX_READ_BYTES: Final = 256 * 1024 * 1024
_READ_TIMEOUT_S: Final = 20.0
"""Time limit for reading the letters to show."""
_REPLAY_TIMEOUT_S: Final = 60.0
"""Time limit after which a replay writes no further letters."""
_RETRY_AFTER_S: Final = 5
_PATH: Final = "/connectors/{connector}/dead-letters"


def endpoints(services: Services, open_kafka: OpenKafka | None) -> list[Endpoint]:
    """Return the endpoints, which share a thread pool. Without `open_kafka`, return none; requests then get 404."""
    if open_kafka is None:
        return []
    calls, letters = (
        BlockingCalls(services, LimitedResource.DEAD_LETTERS, THREADS),
        _DeadLetterService(open_kafka),
    )
    return [_show(calls, letters), _replay(calls, letters)]


def _show(calls: BlockingCalls, letters: _DeadLetterService) -> Endpoint:
    """Return the endpoint GET /connectors/{c}/dead-letters."""

    @endpoint(
        "GET",
        _PATH,
        Operation(
            name="listDeadLetters",
            tag="dead letters",
            summary="Count the dead letters of a connector and show the latest ones",
            query=(
                Query(
                    name="limit",
                    description="Maximum number of letters to show.",
                    schema={"type": "integer", "minimum": 1, "maximum": MAX_SHOWN, "default": _DEFAULT_SHOWN},
                ),
            ),
            responses={200: DEAD_LETTERS},
            errors=(400, 503),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        limit = _parse_limit(request.query_params.get("limit"))
        name = connector_name(request)
        connector = _connector(await live_snapshot(services), name)
        return json_response(await calls.run(lambda: letters.show(connector, limit)))

    return get


def _replay(calls: BlockingCalls, letters: _DeadLetterService) -> Endpoint:
    """Return the endpoint POST /connectors/{c}/dead-letters/replay."""

    @endpoint(
        "POST",
        f"{_PATH}/replay",
        Operation(
            name="replayDeadLetters",
            tag="dead letters",
            summary="Write dead letters back to their topics",
            description="Continues after the letters that were replayed earlier, over REST or by `kraal dlq`. A "
            "request writes for at most a minute; `left_to_replay` is the number of remaining letters. With the `from` "
            "of a dry run, the request is rejected if those letters have been replayed since. Repeating such a request "
            "therefore has no effect.",
            body=REPLAY,
            responses={200: REPLAY_RESULT},
            errors=(409, 503),
        ),
    )
    async def post(services: Services, request: Request) -> Response:
        name = connector_name(request)
        replay_request = parse_replay(await read_body(services, request), max_limit=MAX_REPLAYED)
        connector = _connector(await live_snapshot(services), name)
        return json_response(await calls.run(lambda: letters.replay(connector, replay_request)))

    return post


def _parse_limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_SHOWN
    if (
        text.isascii()
        and text.isdecimal()
        and len(text) <= len(str(MAX_SHOWN))
        and 1 <= int(text) <= MAX_SHOWN
    ):
        return int(text)
    raise BadRequest(f"Invalid limit '{text}'; expected a whole number from 1 to {MAX_SHOWN}.")


@dataclass(frozen=True, slots=True)
class _Connector:
    """Connector whose dead letters are requested."""

    name: ConnectorName
    config: Config
    is_source: bool
    active_topics: Collection[str]
    """Active topics (KIP-558)."""

    @property
    def queue(self) -> DeadLetterQueue:
        """The queue with the connector's dead letters. Raises NoDeadLetters."""
        return DeadLetterQueue(find_topic(self.name, self.config), self.name)

    def targets(self, kafka: LettersKafka) -> Targets:
        """Return the topics that a replay may write to. Raises KafkaUnavailable."""
        return find_targets(kafka, self.config, is_source=self.is_source, active=self.active_topics)


def _connector(snapshot: Snapshot, name: ConnectorName) -> _Connector:
    """Look up a connector. Raises NotFound."""
    config = view.connector_config(snapshot, name)
    texts = {key: value for key, value in config.items() if isinstance(value, str)}
    active_topics = snapshot.status.topics.get(name, ())
    return _Connector(name, texts, view.find_type(snapshot, name) == "source", active_topics)


class _DeadLetterService:
    """Service that reads and replays dead letters. Thread-safe."""

    def __init__(self, open_kafka: OpenKafka) -> None:
        self._open_kafka = open_kafka
        self._lock = threading.Lock()
        self._replaying: set[str] = set()
        """Consumer groups with a replay in progress."""

    def show(self, connector: _Connector, limit: int) -> dict[str, Any]:
        """Return the response to GET. Raises NotFound, Unavailable."""
        with _map_errors(), self._open_kafka(connector.config) as kafka:
            queue = connector.queue
            spans, remaining_spans = _spans(kafka, queue)
            read_limits = _ReadLimits()
            result = read_latest(
                lambda window: read_limits.read(kafka, queue, window),
                spans,
                limit,
                max_offsets=_MAX_SEARCHED,
            )
        return {
            "topic": queue.topic,
            "letters": sum(span.count for span in spans.values()),
            "left_to_replay": _count(remaining_spans),
            "searched": result.searched,
            "shown": list(_letters_within_limit(result)),
        }

    def replay(self, connector: _Connector, replay_request: ReplayRequest) -> dict[str, Any]:
        """Return the response to POST. Raises NotFound, Unavailable, Conflict."""
        until_s = time.monotonic() + _REPLAY_TIMEOUT_S
        count_by_topic: Counter[str] = Counter()
        targets: list[dict[str, Any]] = []
        with _map_errors(), self._open_kafka(connector.config) as kafka:
            queue = connector.queue
            with self._exclusive_replay(queue, dry_run=replay_request.dry_run):
                _, remaining_spans = _spans(kafka, queue)
                start = {partition: span.first for partition, span in remaining_spans.items() if span.count}
                _check_start_offsets(replay_request, start, connector.name)
                should_write = not replay_request.dry_run
                chunks = replay(
                    kafka,
                    queue,
                    remaining_spans,
                    connector.targets(kafka),
                    limit=replay_request.limit,
                    write=should_write,
                    commit_progress=should_write,
                    until_s=until_s,
                )
                for chunk in chunks:
                    for letter, target in chunk:
                        count_by_topic[target.topic] += 1
                        if len(targets) < MAX_SHOWN:
                            targets.append(
                                {
                                    "partition": letter.partition,
                                    "offset": letter.offset,
                                    "to_topic": target.topic,
                                    "to_partition": target.partition,
                                }
                            )
                _, remaining_spans = _spans(kafka, queue)
        return {
            "topic": queue.topic,
            "dry_run": replay_request.dry_run,
            **({"from": start} if replay_request.dry_run else {}),
            "written": dict(sorted(count_by_topic.items())),
            "targets": targets,
            "left_to_replay": _count(remaining_spans),
        }

    @contextmanager
    def _exclusive_replay(self, queue: DeadLetterQueue, *, dry_run: bool) -> Iterator[None]:
        """Prevent concurrent replays of the same letters on this worker. Raises RetryableConflict."""
        if dry_run:
            yield
            return
        with self._lock:
            if queue.group in self._replaying:
                raise RetryableConflict(
                    f"The dead letters of connector {queue.connector} are being replayed; retry later."
                )
            self._replaying.add(queue.group)
        try:
            yield
        finally:
            with self._lock:
                self._replaying.discard(queue.group)


def _check_start_offsets(replay_request: ReplayRequest, start: Mapping[int, int], name: str) -> None:
    """Raise Conflict if a replay would not start at the offsets that the caller expects."""
    expected_offsets = replay_request.start or {}
    if any(start.get(partition) != offset for partition, offset in expected_offsets.items()):
        raise Conflict(
            f"The dead letters of connector {name} have changed since they were listed: they have been replayed or "
            "deleted from the topic. Nothing was written; list the letters again."
        )


@contextmanager
def _map_errors() -> Iterator[None]:
    """Convert exceptions to REST errors."""
    try:
        yield
    except NoDeadLetters as exc:
        raise NotFound(str(exc)) from exc
    except CannotReplay as exc:
        hint = " to `kraal dlq replay`" if "--to" in str(exc) else ""
        raise Conflict(f"{exc}{hint}") from exc
    except KafkaUnavailable as exc:
        raise Unavailable(str(exc), retry_after_s=_RETRY_AFTER_S) from exc
    except SearchLimitExceeded as exc:
        text = f"Reading the dead letters exceeded the limit of {_READ_TIMEOUT_S:.0f} s or {_MAX_READ_BYTES} bytes"
        raise Unavailable(f"{text}; set a smaller limit.", retry_after_s=_RETRY_AFTER_S) from exc


def _spans(
    kafka: LettersKafka, queue: DeadLetterQueue
) -> tuple[dict[int, OffsetRange], dict[int, OffsetRange]]:
    """Return the offset ranges of a queue's partitions: all offsets, and the offsets left to replay.

    Both results are empty if the topic does not exist.
    """
    if queue.topic not in kafka.partitions:
        return {}, {}
    spans = kafka.spans(queue.topic)
    return spans, uncommitted_offsets(spans, kafka.committed_offsets(queue.group, queue.topic))


def _count(spans: Mapping[int, OffsetRange]) -> int:
    return sum(span.count for span in spans.values())


class _ReadLimits:
    """Limits on reads for one response."""

    def __init__(self) -> None:
        self._until_s = time.monotonic() + _READ_TIMEOUT_S
        self._bytes_left = _MAX_READ_BYTES

    def read(
        self, kafka: LettersKafka, queue: DeadLetterQueue, spans: Mapping[int, OffsetRange]
    ) -> Iterator[DeadLetter]:
        """Yield the letters of a queue, truncated to the size limit. Raises SearchLimitExceeded, KafkaUnavailable."""
        for letter in kafka.read(queue.topic, spans):
            self._bytes_left -= len(letter.key or b"") + len(letter.value or b"")
            if self._bytes_left < 0 or time.monotonic() > self._until_s:
                raise SearchLimitExceeded
            if queue.contains(letter):
                yield truncate(letter, _MAX_FIELD_BYTES)


def _letters_within_limit(result: SearchResult) -> Iterator[dict[str, Any]]:
    """Yield letters, latest first, up to the maximum response size."""
    bytes_left = _MAX_BODY_BYTES
    for letter in reversed(result.letters):
        entry = {**to_json_object(letter), "truncated": dict(letter.truncated)}
        if entry["error"]:
            entry["error"] = {
                name: secrets.scrub(value) if isinstance(value, str) else value
                for name, value in entry["error"].items()
            }
        bytes_left -= len(to_json(entry))
        if bytes_left < 0:
            return
        yield entry
