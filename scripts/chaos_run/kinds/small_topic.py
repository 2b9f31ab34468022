"""Lowers a topic's `max.message.bytes` below the batch size of its producer, which must then split batches."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # the classes are documented in this module
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from scripts.chaos_run.kinds.causes import Connectors, find_causes, is_running, wait_for_progress
from scripts.chaos_run.kinds.scene import Scene, Undo
from scripts.chaos_run.pipes import Pipe
from scripts.chaos_run.schedule import HeavyStep, choose

LIMIT_BYTES: Final = 2_000
"""Size of about 20 lines. Larger batches must be split."""
_KEY: Final = "max.message.bytes"
_REQUEST_TIMEOUT_S: Final = 10.0


def shrink(scene: Scene, step: HeavyStep) -> Undo | None:
    """Lower the limit of one pipe's topic; lines must keep flowing."""
    name = choose([pipe.name for pipe in scene.pipes], step.pick)
    pipe = next(pipe for pipe in scene.pipes if pipe.name == name)
    bootstrap = scene.members.broker.bootstrap
    if not _set_limit(bootstrap, pipe, LIMIT_BYTES):
        return None
    scene.timeline.say(f"  {pipe.name}: {_KEY}={LIMIT_BYTES}")
    before = pipe.progress()

    def is_halted(connectors: Connectors) -> bool:
        is_complete = is_running(connectors, f"{pipe.name}-source", f"{pipe.name}-sink")
        return not is_complete or bool(find_causes(connectors, pipe.name))

    def undo() -> None:
        if not wait_for_progress(scene, lambda: pipe.progress() != before, is_halted):
            scene.report_violation(
                f"{pipe.name}: no line was delivered while its topic had {_KEY}={LIMIT_BYTES}"
            )
        if not scene.wait_until(lambda: _set_limit(bootstrap, pipe, None), _REQUEST_TIMEOUT_S):
            scene.report_violation(f"{pipe.name}: failed to reset {_KEY}")

    return undo


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
