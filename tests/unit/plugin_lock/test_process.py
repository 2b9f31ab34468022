"""Tests that a worker process passes the jars of its plugin lock to Spark, in addition to Kraal's own jars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from kraal.config.worker.standalone import parse_standalone
from kraal.engine import engine
from kraal.engine.session.settings import spark_settings
from kraal.plugins.registry import Registry
from kraal.testing._simulation.worker import DEFAULTS
from kraal.worker import spark, standalone


def test_spark_loads_the_jars_of_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Callable[[], Sequence[Path]]] = []

    def spark_engine(
        _settings: object, _registry: object, jars: Callable[[], Sequence[Path]], **_: object
    ) -> None:
        requests.append(jars)

    monkeypatch.setattr(engine, "SparkEngine", spark_engine)
    monkeypatch.setattr(spark, "ensure", lambda group: [Path(f"{group}.jar")])
    keys = {"offset.storage.file.filename": str(tmp_path / "offsets"), "listeners": "http://127.0.0.1:0"}
    config = parse_standalone({**DEFAULTS, **keys})
    process = standalone.StandaloneProcess(config, {}, [Path("driver.jar")])
    process._engine(Registry.load(), at_once=False)
    process._server.close()
    process._close_stores()
    jars = requests[0]()
    assert jars == [Path("spark.jar"), Path("driver.jar")]
    assert spark_settings({}, jars, Path("/scratch"))["spark.jars"] == "spark.jar,driver.jar"
