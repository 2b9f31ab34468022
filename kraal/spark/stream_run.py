"""What a source task does in its run in real-time mode: one streaming query, and looks at how far it came.

    poll: start ──► look, look, … each reports what was written since the last      rest: stop, drain, report

Records flow also while nobody asks. So that a pause or a stop repeats nothing, it ends the query and reports what the
query wrote before it is answered (`runs_on`); going on starts another query where that one ended.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kraal.offsets import Offset, SourcePartition
from kraal.plugins.api import RetriableError, SourceTask
from kraal.spark import kafka_options
from kraal.spark.api import BatchDone, TaskSpec
from kraal.spark.jobs import JobGroup
from kraal.spark.kafka_writer import WritePlan
from kraal.spark.own_session import sibling
from kraal.spark.plugins import Converters, make_converters
from kraal.spark.pool import Pool
from kraal.spark.record_path import record_path
from kraal.spark.slots import Slots, slots_of
from kraal.spark.source_run import Means
from kraal.spark.source_topics import SourceTopics, read_source_topics
from kraal.spark.stream_query import News, StreamQuery
from kraal.spark.trace import root_cause
from kraal.spark.work import Launch, Outcome

log = logging.getLogger(__name__)

_LOOK_S: Final = 0.25
_STORE_S: Final = 1.0
"""Offsets are stored so often while records flow: so much of time, about, comes again after a kill."""
_PASSES: Final = re.compile(
    r"kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeaderOrFollower|LeaderNotAvailable|"
    r"OffsetOutOfRange|UnknownTopicOrPartition)Exception"
)
"""What a query may end with that another one would not: brokers that were away, records that are gone."""
_SETTINGS: Final = {"linger.ms": "0"}


class NotInRealTime(Exception):
    """The task's config, or its worker's, has what real-time mode cannot do."""


class StreamWork:
    """A source task in real-time mode between its plugin and Kafka."""

    polls_idle = False
    owes_commit = False

    def __init__(
        self,
        spec: TaskSpec,
        task_class: type[SourceTask],
        version: str,
        offsets: Mapping[SourcePartition, Offset],
        means: Means,
        group: JobGroup,
        slots: Slots,
        canceller: Pool,
    ) -> None:
        self._spec = spec
        self._class = task_class
        self._version = version
        self._offsets = dict(offsets)
        self._means = means
        self._group = group
        self._slots = slots
        self._canceller = canceller
        self._task: SourceTask | None = None
        self._converters: Converters | None = None
        self._topics: SourceTopics | None = None
        self._query: StreamQuery | None = None
        self._cancelled = threading.Event()
        self._look_s = self._told_s = 0.0

    @property
    def poll_interval_s(self) -> float:
        """How often to poll while there is nothing."""
        return self._means.poll_interval_s

    @property
    def runs_on(self) -> bool:
        """Whether there is a query."""
        return self._query is not None

    def open(self) -> str | None:
        """Make converters and plugin; start it at the stored offsets. Raises NotInRealTime."""
        spec = self._spec
        if not self._means.view.spark_is_local:
            raise NotInRealTime("Real-time mode needs a local Spark: spark.master=local[N], or none")
        self._converters = make_converters(self._means.plugins, self._means.worker, spec)
        if record_path(self._means, spec, self._converters) is not None:
            raise NotInRealTime(
                "In real-time mode nothing handles records one by one: transforms, errors.* and converters that "
                "know no columns need batches"
            )
        self._topics = read_source_topics(
            spec.task, self._means.worker, spec.connector_config, self._cancelled
        )
        self._task = self._class()
        self._task.start(spec.task_config, self._offsets, self._means.context(spec))
        return self._version

    def poll(self, *, asked: bool) -> Launch | None:
        """Give what starts the query, what looks at it when it is time for that, or what ends it."""
        if not asked:
            return self._means.launch(self._rest) if self.runs_on else None
        if self.runs_on and time.monotonic() < self._look_s:
            return None
        return self._means.launch(self._go_on)

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Nothing: the task actor stores a source's offsets."""

    def close(self) -> None:
        """End what still runs, and stop the plugin if it was started."""
        self._cancelled.set()
        if self._query is not None:
            self._query.cancel()
            self._forget()
        self._slots.free(self._spec.task)
        task, self._task = self._task, None
        if task is not None:
            task.stop()

    def cancel(self) -> None:
        """Give up the query."""
        self._cancelled.set()
        self._group.cancel()
        if (query := self._query) is not None:
            self._canceller.submit(query.cancel)

    def _go_on(self) -> Outcome:
        """Start the query if there is none, else report what it wrote. Raises what ended it."""
        query = self._query
        if query is None:
            self._start()
            return None
        self._look_s = time.monotonic() + _LOOK_S
        ended = not query.runs
        if not ended and time.monotonic() < self._told_s + _STORE_S:
            return None
        news = query.news()
        if news is not None:
            return self._done(news)
        if ended:
            error = query.error()
            self._forget()
            if _PASSES.search(cause := root_cause(error)):
                raise RetriableError(cause) from error
            raise error
        return None

    def _start(self) -> None:
        task, converters = self._task, self._converters
        if task is None or converters is None:
            return
        stream = task.stream(self._offsets)
        with self._group.job(f"{self._spec.task} in real time") as spark:
            self._slots.take(self._spec.task, stream.slots, slots_of(spark.session.sparkContext))
            if self._topics is not None:
                self._topics.ensure(sorted(stream.topics))
            client_id = kafka_options.producer_client_id(self._spec.task)
            options = kafka_options.producer_options(
                self._means.worker, self._spec.connector_config, client_id, _SETTINGS
            )
            plan = WritePlan(
                converters=converters,
                options=options,
                key_schema=stream.key_schema,
                value_schema=stream.value_schema,
            )
            scratch = Path(self._means.view.scratch)
            self._query = StreamQuery(sibling(spark.session), stream, plan, scratch, str(self._spec.task))
        self._told_s = time.monotonic()
        if self._cancelled.is_set():  # it was cancelled while it started
            self._query.cancel()

    def _rest(self) -> Outcome:
        """End the query; report what it wrote."""
        query = self._query
        if query is None:
            return None
        news = query.rest(self._cancelled)
        self._forget()
        self._slots.free(self._spec.task)
        return None if news is None else self._done(news)

    def _done(self, news: News) -> BatchDone:
        now_s = time.monotonic()
        began_s, self._told_s = self._told_s, now_s
        self._offsets |= news.offsets
        return BatchDone(
            offsets=news.offsets, records=news.records, topics=news.topics, duration_s=now_s - began_s
        )

    def _forget(self) -> None:
        query, self._query = self._query, None
        if query is not None:
            query.forget()
