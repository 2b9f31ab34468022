"""Fences producers by their transactional ids, like `Admin.fenceProducers` (KIP-618)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException, Producer

from kraal.core.errors import StoreError
from kraal.kafka.settings import LastClientError, client_settings

MAX_HELPERS: Final = 8
"""Maximum number of helper threads in this process; each producer starts further threads."""
_helper_slots: Final = threading.BoundedSemaphore(MAX_HELPERS)


def fence_producers(
    options: Mapping[str, str], transactional_ids: Sequence[str], *, client_id: str, timeout_s: float
) -> None:
    """Fence the producers with these ids concurrently. Blocks for up to about `timeout_s` per producer.

    `options` contains librdkafka's options. Initializing a producer fences all earlier producers with its id. This
    takes 0.15 to 0.3 s per id, mostly waiting for the broker, so a hundred ids in sequence would take 15 to 30 s.
    After an error, the remaining ids are not fenced. Raises StoreError.
    """

    def fence(transactional_id: str) -> None:
        last_error = LastClientError()
        settings = {
            **client_settings(options, client_id, last_error),
            "transactional.id": transactional_id,
            "transaction.timeout.ms": str(round(timeout_s * 1000)),
        }
        settings.pop("group.id", None)
        try:
            Producer(settings).init_transactions(timeout_s)
        except KafkaException as exc:
            reason = last_error.append_to(exc)
            raise StoreError(f"cannot fence the producer {transactional_id!r}: {reason}") from exc

    _run_concurrently(fence, transactional_ids)


def _run_concurrently(action: Callable[[str], None], names: Sequence[str]) -> None:
    """Call `action` for all names on this thread and on helper threads.

    After an error, the remaining names are skipped, and the error is raised. Helpers are daemon threads, so that a wait
    for a broker does not keep the process alive.
    """
    lock, pending_names, errors = threading.Lock(), deque(names), list[Exception]()

    def work() -> None:
        while True:
            with lock:
                if errors or not pending_names:
                    return
                name = pending_names.popleft()
            try:
                action(name)
            except Exception as exc:  # noqa: BLE001 - the caller raises it
                with lock:
                    errors.append(exc)

    def run_helper() -> None:
        try:
            work()
        finally:
            _helper_slots.release()

    threads: list[threading.Thread] = []
    while len(threads) < len(names) - 1 and _helper_slots.acquire(blocking=False):
        threads.append(threading.Thread(target=run_helper, name="fencing helper", daemon=True))
        threads[-1].start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
