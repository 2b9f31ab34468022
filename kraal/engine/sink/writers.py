"""The writers of a sink's run, one for each write path that its transforms, converters and plugin allow."""

from __future__ import annotations

from collections.abc import Mapping

from kraal.engine.api import TaskSpec
from kraal.engine.columns.sink import SinkColumns
from kraal.engine.record_path import RecordPath
from kraal.engine.sink.direct import DirectWriter, takes_converted_tables, takes_tables
from kraal.engine.sink.envelopes import EnvelopeWriter, make_envelope_converter, needs_envelopes
from kraal.engine.sink.plain import PlainWriter
from kraal.engine.sink.range_reader import RangeReader
from kraal.engine.sink.record_batches import SinkRecords
from kraal.engine.sink.transformed import BacklogByColumns, BacklogByRecords, TailByRecords
from kraal.engine.sink.write_paths import SinkFacts, SinkWriter, WritePath
from kraal.engine.task_plugins import Converters, Plugins
from kraal.plugins.api import SinkTask

Writers = Mapping[WritePath, SinkWriter]


def make_writers(
    spec: TaskSpec,
    task: SinkTask,
    converters: Converters,
    path: RecordPath,
    reader: RangeReader,
    plugins: Plugins,
) -> tuple[Writers, SinkRecords | None]:
    """Return the writers, and the record path; None without transforms and error handling."""
    if path.why is None:
        return _make_plain_writers(task, converters, path, reader), None
    envelope = make_envelope_converter(plugins) if needs_envelopes(task) else None
    records = SinkRecords(spec, path.steps, task.values, path.dead_letters, envelope)
    writers: dict[WritePath, SinkWriter] = {
        WritePath.TAIL_BY_RECORDS: TailByRecords(task, records),
        WritePath.BACKLOG_BY_RECORDS: BacklogByRecords(task, records, reader),
    }
    columns = None if spec.chain is not None else SinkColumns.of(path.steps, task.values)
    if columns is not None:
        writers[WritePath.BACKLOG_BY_COLUMNS] = BacklogByColumns(task, columns, reader)
    return writers, records


def _make_plain_writers(
    task: SinkTask, converters: Converters, path: RecordPath, reader: RangeReader
) -> Writers:
    """Return the writers of a run whose records are not processed one by one."""
    if needs_envelopes(task):
        by_text = EnvelopeWriter(task, reader)
        direct = DirectWriter(None, None, task.values) if takes_tables(task) else None
        writers: dict[WritePath, SinkWriter] = {WritePath.TAIL: by_text, WritePath.BACKLOG: by_text}
    else:
        plain = PlainWriter(task, converters, reader, path.steps)
        direct = DirectWriter.of(converters) if takes_tables(task) else None
        writers = {WritePath.TAIL: plain, WritePath.BACKLOG: plain}
    return writers if direct is None else {**writers, WritePath.DIRECT: direct}


def collect_facts(
    task: SinkTask, path: RecordPath, writers: Mapping[WritePath, SinkWriter], *, can_wait: bool
) -> SinkFacts:
    """Return the properties of a run's batches; `can_wait` is whether to wait for records if a tail requires no job."""
    is_direct = WritePath.DIRECT in writers
    return SinkFacts(
        by_records=path.why,
        has_column_form=WritePath.BACKLOG_BY_COLUMNS in writers,
        is_direct=is_direct,
        can_wait=can_wait and (is_direct or (path.why is not None and takes_converted_tables(task))),
    )
