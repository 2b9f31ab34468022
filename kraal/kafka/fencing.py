"""Fences producers by their transactional ids, like `Admin.fenceProducers` (KIP-618)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, Producer

from kraal.core.errors import StoreError
from kraal.kafka.settings import LastClientError, client

HELPERS: Final = 8
"""Maximum number of threads of this process that fence beside their callers; a producer takes a few threads itself."""
_helpers: Final = threading.BoundedSemaphore(HELPERS)


def fence_producers(
    options: Mapping[str, str], transactional_ids: Sequence[str], *, client_id: str, timeout_s: float
) -> None:
    """Fence every producer with one of these ids, several at once; blocks, at most about `timeout_s` for each.

    `options`: librdkafka's. A producer that initializes with an id fences all earlier ones; it mostly waits for the
    broker, 0.15 to 0.3 s each, so a hundred one after the other take half a minute. Raises StoreError; producers that
    have not been begun by then stay as they are.
    """

    def fence(transactional_id: str) -> None:
        last_error = LastClientError()
        settings = {
            **client(options, client_id, last_error),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(round(timeout_s * 1000)),
        }
        settings.pop("group.id", None)
        try:
            Producer(settings).init_transactions(timeout_s)
        except KafkaException as exc:
            reason = last_error.added_to(exc)
            raise StoreError(f"cannot fence the producer {transactional_id!r}: {reason}") from exc

    _side_by_side(fence, transactional_ids)


def _side_by_side(act: Callable[[str], None], names: Sequence[str]) -> None:
    """Act on all names, on this thread and on helpers. Raises the first error; no other name is begun after it.

    Helpers are daemons: one that waits for a broker does not keep the process from ending.
    """
    lock, left, failed = threading.Lock(), deque(names), list[Exception]()

    def work() -> None:
        while True:
            with lock:
                if failed or not left:
                    return
                name = left.popleft()
            try:
                act(name)
            except Exception as exc:  # noqa: BLE001 - the caller raises it
                with lock:
                    failed.append(exc)

    def help_out() -> None:
        try:
            work()
        finally:
            _helpers.release()

    threads: list[threading.Thread] = []
    while len(threads) < len(names) - 1 and _helpers.acquire(blocking=False):
        threads.append(threading.Thread(target=help_out, name="fencing helper", daemon=True))
        threads[-1].start()
    work()
    for each in threads:
        each.join()
    if failed:
        raise failed[0]
