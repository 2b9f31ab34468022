"""Lowers a topic's `max.message.bytes` below the batch size of its producer, which must then split batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # the classes are documented in this module
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from scripts.chaos_run.kinds.causes import find_causes, is_running, query_connectors
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.pipes import Pipe
from scripts.chaos_run.schedule import HeavyStep, choose

LIMIT_BYTES: Final = 2_000
"""Size of about 20 lines. Larger batches must be split."""
_KEY: Final = "max.message.bytes"
_REQUEST_TIMEOUT_S: Final = 10.0
PROGRESS_TIMEOUT_S: Final = 75.0
"""Time without a cause in REST within which a pipe's sink must write, in addition to the duration of the fault. A cause
appears after the workers' stall timeout of 60 s, for example if another fault blocks the consumer group."""
MAX_WAIT_S: Final = 150.0
"""Maximum time to wait for a pipe that another fault or a client has halted."""
_CHECK_INTERVAL_S: Final = 2.0


def shrink(scene: Scene, step: HeavyStep) -> Undo | None:
    """Lower the limit of one pipe's topic; lines must keep flowing."""
    name = choose([pipe.name for pipe in scene.pipes], step.pick)
    pipe = next(pipe for pipe in scene.pipes if pipe.name == name)
    bootstrap = scene.members.broker.bootstrap
    if not _set_limit(bootstrap, pipe, LIMIT_BYTES):
        return None
    scene.timeline.say(f"  {pipe.name}: {_KEY}={LIMIT_BYTES}")
    before = pipe.progress()

    def undo() -> None:
        if not _is_delivered_or_halted(scene, pipe, lambda: pipe.progress() != before):
            scene.report_violation(
                f"{pipe.name}: no line was delivered while its topic had {_KEY}={LIMIT_BYTES}"
            )
        if not scene.wait_until(lambda: _set_limit(bootstrap, pipe, None), _REQUEST_TIMEOUT_S):
            scene.report_violation(f"{pipe.name}: failed to reset {_KEY}")

    return undo


def _is_delivered_or_halted(scene: Scene, pipe: Pipe, is_delivered: Callable[[], bool]) -> bool:
    """Wait for a delivery; return False if there was none in `PROGRESS_TIMEOUT_S` during which the pipe could run."""
    start_s = explained_s = time.monotonic()
    while not scene.wait_until(is_delivered, _CHECK_INTERVAL_S):
        now_s = time.monotonic()
        connectors = query_connectors(scene)
        if connectors is None or not is_running(connectors, pipe.name) or find_causes(connectors, pipe.name):
            explained_s = now_s
        if scene.stopped.is_set() or now_s - start_s > MAX_WAIT_S:
            return True
        if now_s - explained_s > PROGRESS_TIMEOUT_S:
            return False
    return True


def _set_limit(bootstrap: str, pipe: Pipe, limit: int | None) -> bool:
    """Set a topic's limit, or restore the default; return whether the broker has accepted the change."""
    operation = AlterConfigOpType.DELETE if limit is None else AlterConfigOpType.SET
    entry = ConfigEntry(_KEY, None if limit is None else str(limit), incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.TOPIC, pipe.name, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    try:
        admin.incremental_alter_configs([resource], request_timeout=_REQUEST_TIMEOUT_S)[resource].result(
            _REQUEST_TIMEOUT_S
        )
    except (KafkaException, TimeoutError):
        return False
    return True
