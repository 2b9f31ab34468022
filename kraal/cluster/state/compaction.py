"""Compaction: selects the records of a log that are still needed. Pure; used when a file-backed log is opened.

Keeping the latest record of each key is sufficient for the status log, but not for the config log. A PUT of a config
writes only `connector-X`. If the older `connector-X` is removed, its `commit-X` precedes any config and appears to
belong to a deleted connector. A Kafka topic cannot avoid this (the owner publishes the tasks again), but a file can, so
that a paused connector keeps its tasks across a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraal.core.records import Record


def latest_by_key(records: Sequence[Record]) -> list[Record]:
    """Return the last record of each key, in order, without tombstones, because readers start from an empty state."""
    return _in_order(r for r in {r.key: r for r in records}.values() if r.value is not None)


def needed_config(records: Sequence[Record]) -> list[Record]:
    """Return the records from which `apply_config` derives the same state and versions as from all records."""
    last_commits = {r.key.removeprefix("commit-"): r.offset for r in records if r.key.startswith("commit-")}
    deletion_offsets = {
        r.key.removeprefix("connector-"): r.offset
        for r in records
        if r.key.startswith("connector-") and r.value is None
    }
    latest: dict[tuple[str, bool], Record] = {}
    for record in records:
        name = _parse_connector(record.key)
        if name is None:
            latest[record.key, False] = record
        elif record.offset >= deletion_offsets.get(name, -1):
            is_before_commit = record.offset < last_commits.get(name, -1) and not record.key.startswith(
                "commit-"
            )
            latest[record.key, is_before_commit] = record
    return _in_order(_without_consumed(latest.values(), records))


def _parse_connector(key: str) -> str | None:
    """Return the connector whose deletion makes a record with this key obsolete, if any."""
    for prefix in ("connector-", "commit-"):
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key.removeprefix("task-").rpartition("-")[0] if key.startswith("task-") else None


def _without_consumed(latest: Iterable[Record], records: Sequence[Record]) -> Iterable[Record]:
    """Drop tombstones, and task configs that precede the second-latest commit of their connector."""
    previous_commit_offsets: dict[str, int] = {}
    last_commit_offsets: dict[str, int] = {}
    for record in records:
        if record.key.startswith("commit-"):
            name = record.key.removeprefix("commit-")
            previous_commit_offsets[name] = last_commit_offsets.get(name, -1)
            last_commit_offsets[name] = record.offset
    for record in latest:
        name = _parse_connector(record.key) or ""
        is_consumed = record.key.startswith("task-") and record.offset < previous_commit_offsets.get(name, -1)
        if record.value is not None and not is_consumed:
            yield record


def _in_order(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda r: r.offset)
