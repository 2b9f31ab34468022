"""What the process of Java plugins gets from the worker's properties."""

from __future__ import annotations

from kraal.java_plugins.parts import worker_properties


def test_producers_of_java_tasks_have_larger_batches_than_java_s_default() -> None:
    assert worker_properties({"group.id": "g"}) == {"group.id": "g", "producer.batch.size": "131072"}


def test_the_worker_s_own_batch_size_wins() -> None:
    assert worker_properties({"producer.batch.size": "16384"}) == {"producer.batch.size": "16384"}


def test_config_providers_stay_with_the_python_worker() -> None:
    given = {"config.providers": "file", "config.providers.file.class": "x", "producer.batch.size": "1"}
    assert worker_properties(given) == {"producer.batch.size": "1"}
