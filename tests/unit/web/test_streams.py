"""Tests for the broadcaster: delivery of changes to readers, comparison of snapshots, and history."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import web.streams
from kraal.cluster.views.changes import Changes, Names, add, changes
from kraal.cluster.views.snapshot import Published, Snapshot
from kraal.core.ids import ConnectorName, WorkerId
from tests.unit.web.api import FakeHerder
from web.streams import MAX_CHANGES, METRICS, METRICS_ELSEWHERE, Broadcaster, Reader, visible_changes


class Herder(FakeHerder):
    """Fake herder, with the broadcaster of its snapshots."""

    def __init__(self) -> None:
        super().__init__(Published(Snapshot(worker_id=WorkerId("w:1"), live=True)))
        self.streams = Broadcaster(self.published)

    def run_on_thread(self, work: Callable[[], object]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()


Scenario = Callable[[Herder], Coroutine[Any, Any, None]]


def run_scenario(scenario: Scenario) -> None:
    async def run_with_timeout() -> None:
        async with asyncio.timeout(20):
            await scenario(Herder())

    asyncio.run(run_with_timeout())


def noop() -> None:
    """Do nothing in place of aborting a connection."""


async def next_changes(herder: Herder, reader: Reader) -> dict[str, Any] | None:
    await reader.wakeup.wait()
    reader.wakeup.clear()
    changes = herder.streams.take_changes(reader)
    return None if changes is None else dict(changes)


def test_reader_receives_changes_published_by_another_thread() -> None:
    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as reader:
            herder.run_on_thread(lambda: herder.put("a", {}))
            assert await next_changes(herder, reader) == {"configs": {"a"}, "states": {"a"}, "topics": {"a"}}
            herder.run_on_thread(lambda: herder.streams.notify("logs", "b"))
            assert await next_changes(herder, reader) == {"logs": {"b"}}
            herder.run_on_thread(lambda: herder.streams.notify_all("numbers", ["a", "b"]))
            assert await next_changes(herder, reader) == {"numbers": {"a", "b"}}
            herder.run_on_thread(lambda: herder.streams.notify("events"))
            assert await next_changes(herder, reader) == {"events": None}
            assert herder.streams.seq == reader.position == 4

    run_scenario(scenario)


def test_burst_is_merged_into_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.streams, "COMPARE_INTERVAL_S", 3600)

    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as reader:
            for number in range(50):
                herder.put(f"c{number}", {})
                herder.streams.notify("logs", f"l{number}")
                await asyncio.sleep(0)
            with herder.streams.reading(noop):  # receives only later changes
                merged_changes = await next_changes(herder, reader)
            assert merged_changes is not None
            assert (len(merged_changes["configs"]), len(merged_changes["logs"]), herder.streams.seq) == (
                50,
                50,
                1,
            )

    run_scenario(scenario)


def test_change_after_a_pause_is_sent_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as reader:
            monkeypatch.setattr(web.streams, "COMPARE_INTERVAL_S", -1.0)
            herder.put("a", {})
            assert not reader.wakeup.is_set(), "the reader is not woken on the herder's thread"
            await next_changes(herder, reader)
            monkeypatch.setattr(web.streams, "COMPARE_INTERVAL_S", 3600)
            herder.put("b", {})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.wakeup.wait(), 0.05)

    run_scenario(scenario)


def test_all_readers_receive_the_same_changes_from_one_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    compared_snapshots: list[Snapshot] = []

    def record_comparison(before: Snapshot, after: Snapshot) -> Changes:
        compared_snapshots.append(after)
        return changes(before, after)

    monkeypatch.setattr(web.streams, "changes", record_comparison)

    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as first, herder.streams.reading(noop) as second:
            compared_snapshots.clear()
            herder.put("a", {})
            assert await next_changes(herder, first) == await next_changes(herder, second) != {}
            assert compared_snapshots == [herder.published.latest]

    run_scenario(scenario)


def test_broadcaster_is_idle_without_readers() -> None:
    async def scenario(herder: Herder) -> None:
        herder.put("a", {})
        herder.streams.notify("logs", "a")
        with herder.streams.reading(noop) as reader:
            assert (reader.position, herder.streams.seq) == (0, 0)
            herder.put("b", {})
            assert await next_changes(herder, reader) == {"configs": {"b"}, "states": {"b"}, "topics": {"b"}}

    run_scenario(scenario)


def test_reconnecting_reader_resumes() -> None:
    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as reader:
            herder.put("a", {})
            await next_changes(herder, reader)
        herder.put("b", {})
        herder.streams.notify("logs", "b")
        with herder.streams.reading(noop) as reader:
            assert herder.streams.resume(reader, 1)
            assert await next_changes(herder, reader) == {
                "configs": {"b"}, "states": {"b"}, "topics": {"b"}, "logs": {"b"}
            }  # fmt: skip
            assert herder.streams.resume(reader, 2)
            assert not reader.wakeup.is_set(), "the reader has received all changes"
            assert not herder.streams.resume(reader, 3), "no change has this sequence number yet"

    run_scenario(scenario)


def test_reader_cannot_resume_after_the_retention_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.streams, "RETENTION_S", 0.01)

    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as reader:
            herder.put("a", {})
            await next_changes(herder, reader)
        await asyncio.sleep(0.1)
        with herder.streams.reading(noop) as reader:
            assert not herder.streams.resume(reader, 1)
            herder.put("b", {})
            assert await next_changes(herder, reader) == {"configs": {"b"}, "states": {"b"}, "topics": {"b"}}

    run_scenario(scenario)


def test_reader_resumes_within_the_retention_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.streams, "RETENTION_S", 0.05)

    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop):
            pass
        with herder.streams.reading(noop) as reader:
            await asyncio.sleep(0.15)
            assert herder.streams.resume(reader, 0)

    run_scenario(scenario)


def test_slow_reader_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.streams, "COMPARE_INTERVAL_S", 0.0)

    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as slow_reader, herder.streams.reading(noop) as fast_reader:
            for number in range(MAX_CHANGES):
                herder.streams.notify("logs", f"c{number % 7}")
                assert await next_changes(herder, fast_reader) == {"logs": {f"c{number % 7}"}}
            position = slow_reader.position
            assert await next_changes(herder, slow_reader) == {"logs": {f"c{number}" for number in range(7)}}
            slow_reader.position = position
            herder.streams.notify("logs", "one too many")
            await next_changes(herder, fast_reader)
            assert await next_changes(herder, slow_reader) is None
            assert slow_reader.position == fast_reader.position, (
                "the reader continues at the current position"
            )

    run_scenario(scenario)


def test_too_many_names_become_any_connector() -> None:
    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as reader:
            for number in range(10_000):
                herder.streams.notify("logs", f"c{number}")
            assert await next_changes(herder, reader) == {"logs": None}

    run_scenario(scenario)


def test_closing_wakes_all_readers_and_aborts_stalled_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web.streams, "ABORT_DELAY_S", 0.01)

    async def scenario(herder: Herder) -> None:
        connection_aborted, reader_aborted = asyncio.Event(), asyncio.Event()
        with herder.streams.reading(connection_aborted.set):
            with herder.streams.reading(reader_aborted.set) as reader:
                herder.run_on_thread(herder.streams.close)
                await reader.wakeup.wait()
                assert herder.streams.is_closed
            await connection_aborted.wait()
        assert not reader_aborted.is_set()

    run_scenario(scenario)


def test_reentrant_notification_does_not_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(herder: Herder) -> None:
        def add_and_log(changed: dict[str, Names], kind: str, names: Names) -> None:
            if kind == "states":
                herder.streams.notify("logs", "b")  # like a destructor that logs during a notification
            add(changed, kind, names)

        with herder.streams.reading(noop) as reader:
            monkeypatch.setattr(web.streams, "add", add_and_log)
            thread = threading.Thread(target=herder.streams.notify, args=("states", "a"), daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive()
            assert await next_changes(herder, reader) == {"logs": {"b"}, "states": {"a"}}

    run_scenario(scenario)


def test_herder_survives_the_end_of_the_event_loop() -> None:
    herder = Herder()

    async def read() -> None:
        with herder.streams.reading(noop):
            herder.put("a", {})

    asyncio.run(read())
    herder.put("b", {})
    herder.streams.notify("logs", "b")
    herder.streams.close()
    assert herder.streams.reader_count == 0


@pytest.mark.parametrize(
    ("kinds", "to_worker", "expected"),
    [
        (None, False, {"states": {"s"}, "numbers": {"own", "theirs"}}),
        (None, True, {"states": {"s"}, "numbers": {"own"}}),
        (frozenset({"numbers"}), False, {"numbers": {"own", "theirs"}}),
        (frozenset({"numbers"}), True, {"numbers": {"own"}}),
        (frozenset({"states", METRICS_ELSEWHERE}), False, {"states": {"s"}}),
    ],
)
def test_workers_receive_local_metric_changes_and_clients_all(
    kinds: frozenset[str] | None, expected: dict[str, object], *, to_worker: bool
) -> None:
    kinds_by_name = {"s": "states", "own": METRICS, "theirs": METRICS_ELSEWHERE}
    all_changes: Changes = {kind: frozenset({ConnectorName(name)}) for name, kind in kinds_by_name.items()}
    assert visible_changes(all_changes, kinds, to_worker=to_worker) == expected


def test_metrics_seq_is_the_latest_metric_change() -> None:
    async def scenario(herder: Herder) -> None:
        with herder.streams.reading(noop) as reader:
            for kind, seq in ((METRICS, 1), ("logs", 1), (METRICS_ELSEWHERE, 3), ("logs", 3)):
                herder.streams.notify(kind)
                await next_changes(herder, reader)
                assert herder.streams.metrics_seq == seq
            assert herder.streams.seq == 4

    run_scenario(scenario)
