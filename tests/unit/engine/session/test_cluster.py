"""Tests for the settings of a Spark session on a cluster, and for the checks of its executors."""

from __future__ import annotations

import importlib
import os
import py_compile
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kraal.engine.session import code_archive, executors
from kraal.engine.session.cluster import cluster_settings, executor_options, executor_python
from kraal.engine.session.settings import prepare_environment, spark_settings
from kraal.engine.session.start_failure import start_failure
from tests.fakes.spark.bare_python import EXECUTOR_PACKAGES, bare_python

ROOT = Path(__file__).parents[4]
MASTER = "spark://127.0.0.1:7077"
WORKER = {"spark.master": MASTER, "spark.authenticate.secret": "s"}


@pytest.fixture(autouse=True)
def _clear_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "KAFKA_OPTS"):
        monkeypatch.delenv(name, raising=False)


def test_cluster_settings_limit_the_application_by_default(tmp_path: Path) -> None:
    settings = spark_settings(WORKER, (), tmp_path)
    assert (settings["spark.cores.max"], settings["spark.executor.cores"]) == ("2", "1")
    assert (settings["spark.executor.memory"], settings["spark.executor.instances"]) == ("1g", "2")
    assert spark_settings({**WORKER, "spark.cores.max": "9"}, (), tmp_path)["spark.cores.max"] == "9"
    assert "spark.cores.max" not in spark_settings({}, (), tmp_path)


def test_executor_without_driver_exits_within_30_seconds(tmp_path: Path) -> None:
    settings = spark_settings(WORKER, (), tmp_path)
    failures = int(settings["spark.executor.heartbeat.maxFailures"])
    assert failures * int(settings["spark.executor.heartbeatInterval"].removesuffix("s")) <= 30
    local_settings = spark_settings({}, (), tmp_path)
    assert (local_settings["spark.executor.heartbeatInterval"], local_settings["spark.network.timeout"]) == (
        "60s",
        "300s",
    )


def test_driver_host_is_the_local_address_of_the_route_to_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defaults = cluster_settings(WORKER)
    assert defaults["spark.driver.host"] == defaults["spark.driver.bindAddress"] == "127.0.0.1"
    settings = cluster_settings({**WORKER, "spark.driver.host": "10.0.0.9"})
    assert settings["spark.driver.bindAddress"] == "10.0.0.9"
    assert "spark.driver.host" not in cluster_settings({"spark.master": "yarn"})
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.9")
    assert "spark.driver.host" not in cluster_settings(WORKER)


def test_local_cluster_has_a_generated_secret() -> None:
    first_settings, second_settings = (
        cluster_settings({"spark.master": "local-cluster[1,1,512]"}) for _ in range(2)
    )
    assert first_settings["spark.authenticate.secret"] != second_settings["spark.authenticate.secret"]
    assert "spark.authenticate.secret" not in cluster_settings(WORKER)


def test_executor_options_contain_client_restrictions(tmp_path: Path) -> None:
    url = "https://id.example/token"
    worker = {
        **WORKER,
        "sasl.oauthbearer.token.endpoint.url": url,
        "spark.executor.extraJavaOptions": "-Xss4m",
    }
    expected = f'"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}" -Xss4m'
    assert executor_options(worker) == expected
    assert spark_settings(worker, (), tmp_path)["spark.executor.extraJavaOptions"] == expected
    assert "spark.executor.extraJavaOptions" not in spark_settings({}, (), tmp_path)


def test_python_of_executors_is_configurable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executor_python({}, {}) == sys.executable
    assert executor_python({}, {"PYSPARK_PYTHON": "/p"}) == "/p"
    assert executor_python({"spark.pyspark.python": "/q"}, {"PYSPARK_PYTHON": "/p"}) == "/q"
    prepare_environment(tmp_path, {**WORKER, "spark.pyspark.python": "/q"})
    assert os.environ["PYSPARK_PYTHON"] == "/q"
    assert "SPARK_LOCAL_IP" not in os.environ, "a driver on loopback cannot be reached from other hosts"
    monkeypatch.delenv("PYSPARK_PYTHON")
    prepare_environment(tmp_path)
    assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == (sys.executable, "127.0.0.1")


def test_python_without_kraal_imports_the_code_archive(tmp_path: Path) -> None:
    archive = tmp_path / code_archive.NAME
    assert code_archive.write_code(archive, ["kraal"]) == []
    code = "import kraal.engine.records.sink_pass, kraal.engine.records.source_pass as module; print(module.__file__)"
    result = subprocess.run(
        [
            str(bare_python(tmp_path / "python")),
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(archive)!r}); {code}",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert result.stderr == ""
    assert result.stdout.startswith(str(archive))


def test_documentation_lists_the_packages_of_executors() -> None:
    page = (ROOT / "docs" / "deploy" / "spark-cluster.md").read_text()
    (packages,) = re.findall(r"/opt/executor/bin/pip install (.+)", page)
    assert tuple(packages.split()) == EXECUTOR_PACKAGES


def test_code_archive_contains_current_compiled_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "sent_package"
    package.mkdir()
    for name in ("fresh", "stale", "never"):
        (package / f"{name}.py").write_text("A = 1\n")
    for name in ("fresh", "stale"):
        py_compile.compile(str(package / f"{name}.py"))
    (package / "stale.py").write_text("A = 22\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    code_archive.write_code(tmp_path / "a.zip", ["sent_package", "no_such_package"])
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = set(archive.namelist())
    assert names == {f"sent_package/{name}.py" for name in ("fresh", "stale", "never")} | {
        "sent_package/fresh.pyc"
    }


def test_package_with_native_modules_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "native_package"
    package.mkdir()
    (package / "quick.so").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert code_archive.write_code(tmp_path / "a.zip", ["native_package"]) == ["native_package"]


def test_code_archive_contains_kraal() -> None:
    assert "kraal" in code_archive.packages()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('IOException: Cannot run program "/p": error=2', "Executors have no /p; set spark.pyspark.python"),
        (
            "x\n[PYTHON_VERSION_MISMATCH] 3.9 and 3.11\ny",
            "Executors have a different version of Python (/p): [PYTHON_VERSION_MIS",
        ),
        (
            "ModuleNotFoundError: No module named 'pyarrow'",
            "Executors cannot import pyarrow; install it for /p",
        ),
    ],
)
def test_unusable_executor_python_is_diagnosed(text: str, expected: str) -> None:
    assert (executors.explain_python_error(text, "/p") or "").startswith(expected)
    assert executors.explain_python_error("a full disk", "/p") is None


def test_start_failure_reports_unusable_executors() -> None:
    unusable = executors.ExecutorsUnusable("Executors have no /p; set spark.pyspark.python")
    unusable.__cause__ = OSError("error=2, No such file or directory")
    assert start_failure(unusable) == "Executors have no /p; set spark.pyspark.python"
    assert start_failure(OSError("a full disk")) == "OSError: a full disk"


class Context:
    """A fake of a SparkSession and its SparkContext, with a clock that tests set."""

    def __init__(self) -> None:
        self.now_s, self.executors, self.is_stopped = 0.0, 1, False
        self.sparkContext: Any = self
        self._jsc: Any = self

    def sc(self) -> Any:
        return self

    def getExecutorMemoryStatus(self) -> Any:  # noqa: N802 - Spark's name
        return self

    def size(self) -> int:
        return self.executors + 1

    def isStopped(self) -> bool:  # noqa: N802 - as above
        return self.is_stopped


def test_session_without_executors_is_lost_after_a_minute() -> None:
    session = Context()
    watch = executors.ExecutorWatch(session, lambda: session.now_s)  # type: ignore[arg-type]
    session.now_s, session.executors = 100.0, 1
    assert watch.loss_reason() is None
    session.executors = 0
    session.now_s = 159.0
    assert watch.loss_reason() is None
    session.executors = 1
    assert watch.loss_reason() is None, "the executors returned"
    session.executors, session.now_s = 0, 220.0
    assert watch.loss_reason() == "there was no executor for 60 s"


def test_session_stopped_by_the_cluster_is_lost() -> None:
    session = Context()
    watch = executors.ExecutorWatch(session, lambda: session.now_s)  # type: ignore[arg-type]
    session.is_stopped = True
    assert watch.loss_reason() == "the cluster stopped the application"


def test_wait_for_executors_is_reported_and_ends_with_the_application() -> None:
    session, reasons = Context(), list[str]()
    session.executors = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "_START_REPORT_DELAY_S", 0.0)
        patch.setattr(executors, "_POLL_INTERVAL_S", 0.0)

        def report(why: str) -> None:
            reasons.append(why)
            session.is_stopped = True

        with pytest.raises(executors.ExecutorsUnusable, match="rejected the application, or stopped it"):
            executors.await_executor(session, MASTER, report, lambda: False)  # type: ignore[arg-type]
    assert reasons == [
        f"Waiting for executors of {MASTER}; its cores or memory may be in use by other applications"
    ]


def executor_problems(markers: list[str]) -> list[str]:
    return [
        row["problem"] for batch in executors.find_problems(iter([]), markers) for row in batch.to_pylist()
    ]


def test_executors_check_for_files_of_the_worker(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    marker.touch()
    assert executor_problems([str(marker)]) == []
    assert executor_problems(["/nowhere/x"]) == ["they cannot access the worker's /nowhere"]


def test_missing_module_of_executors_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kraal.engine.records.sink_pass", None)
    (problem,) = executor_problems([])
    assert problem.startswith(
        "they cannot import a module that Kraal requires; install it on the executors: ModuleNotFoundError"
    )


def test_shared_folder_that_the_worker_cannot_write_to_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with (
        pytest.raises(executors.ExecutorsUnusable, match="the worker cannot write to"),
        executors.create_markers([str(tmp_path), str(missing)]),
    ):
        pass
    assert list(tmp_path.iterdir()) == [], "the marker was removed"
