"""What the herder takes from a worker's config."""

from __future__ import annotations

from actors.herding.state import HerderSettings
from kraal.core.ids import WorkerId
from tests.fakes.workers.worker_config import distributed


def test_an_instance_that_stops_for_all_of_its_time_is_shown_as_restarting_meanwhile() -> None:
    config = distributed(task_shutdown_graceful_timeout_ms="7000", topic_tracking_allow_reset="false")
    found = HerderSettings.of(config, WorkerId("w:1"), standalone=False)
    assert found.shown_restarting_s == 17
    assert (found.worker_id, found.standalone) == ("w:1", False)
    assert (found.topic_tracking, found.topic_reset) == (True, False)
    assert found.auto_restart == config.auto_restart
