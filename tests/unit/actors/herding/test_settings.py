"""Tests for herder settings derived from a worker's config."""

from __future__ import annotations

from actors.herding.state import HerderSettings
from kraal.core.ids import WorkerId
from tests.fakes.workers.worker_config import distributed


def test_settings_are_derived_from_the_worker_config() -> None:
    config = distributed(task_shutdown_graceful_timeout_ms="7000", topic_tracking_allow_reset="false")
    settings = HerderSettings.of(config, WorkerId("w:1"), standalone=False)
    assert settings.restarting_timeout_s == 17
    assert (settings.worker_id, settings.standalone) == ("w:1", False)
    assert (settings.topic_tracking, settings.topic_reset) == (True, False)
    assert settings.auto_restart == config.auto_restart
