"""What a cluster's session is told, and how the worker judges its executors."""

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
from tests.fakes.spark.bare_python import INSTALLED, bare_python

ROOT = Path(__file__).parents[4]
MASTER = "spark://127.0.0.1:7077"
WORKER = {"spark.master": MASTER, "spark.authenticate.secret": "s"}


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "KAFKA_OPTS"):
        monkeypatch.delenv(name, raising=False)


def test_an_application_is_bounded_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    settings = spark_settings(WORKER, (), tmp_path)
    assert (settings["spark.cores.max"], settings["spark.executor.cores"]) == ("2", "1")
    assert (settings["spark.executor.memory"], settings["spark.executor.instances"]) == ("1g", "2")
    assert spark_settings({**WORKER, "spark.cores.max": "9"}, (), tmp_path)["spark.cores.max"] == "9"
    assert "spark.cores.max" not in spark_settings({}, (), tmp_path)


def test_an_executor_without_its_driver_ends_within_half_a_minute(tmp_path: Path) -> None:
    settings = spark_settings(WORKER, (), tmp_path)
    beats = int(settings["spark.executor.heartbeat.maxFailures"])
    assert beats * int(settings["spark.executor.heartbeatInterval"].removesuffix("s")) <= 30
    local = spark_settings({}, (), tmp_path)
    assert (local["spark.executor.heartbeatInterval"], local["spark.network.timeout"]) == ("60s", "300s")


def test_executors_reach_the_driver_by_its_address_on_the_way_to_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    defaults = cluster_settings(WORKER)
    assert defaults["spark.driver.host"] == defaults["spark.driver.bindAddress"] == "127.0.0.1"
    settings = cluster_settings({**WORKER, "spark.driver.host": "10.0.0.9"})
    assert settings["spark.driver.bindAddress"] == "10.0.0.9"
    assert "spark.driver.host" not in cluster_settings({"spark.master": "yarn"})
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.0.0.9")
    assert "spark.driver.host" not in cluster_settings(WORKER)


def test_a_cluster_on_one_machine_has_a_secret_of_its_own() -> None:
    first, second = (cluster_settings({"spark.master": "local-cluster[1,1,512]"}) for _ in range(2))
    assert first["spark.authenticate.secret"] != second["spark.authenticate.secret"]
    assert "spark.authenticate.secret" not in cluster_settings(WORKER)


def test_executors_keep_to_the_operators_restrictions_of_clients(tmp_path: Path) -> None:
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


def test_the_python_of_executors_is_the_users_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert executor_python({}, {}) == sys.executable
    assert executor_python({}, {"PYSPARK_PYTHON": "/p"}) == "/p"
    assert executor_python({"spark.pyspark.python": "/q"}, {"PYSPARK_PYTHON": "/p"}) == "/q"
    prepare_environment(tmp_path, {**WORKER, "spark.pyspark.python": "/q"})
    assert os.environ["PYSPARK_PYTHON"] == "/q"
    assert "SPARK_LOCAL_IP" not in os.environ, "a driver on loopback cannot be reached from elsewhere"
    monkeypatch.delenv("PYSPARK_PYTHON")
    prepare_environment(tmp_path)
    assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == (sys.executable, "127.0.0.1")


def test_a_python_without_kraal_runs_the_code_that_was_sent(tmp_path: Path) -> None:
    archive = tmp_path / code_archive.NAME
    assert code_archive.write_code(archive, ["kraal"]) == []
    code = "import kraal.engine.records.sink_pass, kraal.engine.records.source_pass as found; print(found.__file__)"
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


def test_operators_are_told_to_install_what_executors_need() -> None:
    page = (ROOT / "docs" / "deploy" / "spark-cluster.md").read_text()
    (packages,) = re.findall(r"/opt/executor/bin/pip install (.+)", page)
    assert tuple(packages.split()) == INSTALLED


def test_compiled_modules_are_sent_if_they_are_current(
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


def test_a_package_with_native_modules_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "native_package"
    package.mkdir()
    (package / "quick.so").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert code_archive.write_code(tmp_path / "a.zip", ["native_package"]) == ["native_package"]


def test_kraals_own_code_is_among_what_is_sent() -> None:
    assert "kraal" in code_archive.packages()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('IOException: Cannot run program "/p": error=2', "Executors have no /p; set spark.pyspark.python"),
        (
            "x\n[PYTHON_VERSION_MISMATCH] 3.9 and 3.11\ny",
            "Executors have another Python (/p): [PYTHON_VERSION_MIS",
        ),
        (
            "ModuleNotFoundError: No module named 'pyarrow'",
            "Executors cannot import pyarrow; install it for /p",
        ),
    ],
)
def test_unfit_executor_python_is_diagnosed(text: str, says: str) -> None:
    assert (executors.unfit(text, "/p") or "").startswith(says)
    assert executors.unfit("a full disk", "/p") is None


def test_start_failure_reports_unfit_executors() -> None:
    unfit = executors.ExecutorsUnusable("Executors have no /p; set spark.pyspark.python")
    unfit.__cause__ = OSError("error=2, No such file or directory")
    assert start_failure(unfit) == "Executors have no /p; set spark.pyspark.python"
    assert start_failure(OSError("a full disk")) == "OSError: a full disk"


class Context:
    """What a watch asks of a session."""

    def __init__(self) -> None:
        self.now_s, self.executors, self.stopped = 0.0, 1, False
        self.sparkContext: Any = self
        self._jsc: Any = self

    def sc(self) -> Any:
        return self

    def getExecutorMemoryStatus(self) -> Any:  # noqa: N802 - Spark's name
        return self

    def size(self) -> int:
        return self.executors + 1

    def isStopped(self) -> bool:  # noqa: N802 - as above
        return self.stopped


def test_a_session_without_executors_is_given_up_after_a_minute() -> None:
    session = Context()
    watch = executors.ExecutorWatch(session, lambda: session.now_s)  # type: ignore[arg-type]
    session.now_s, session.executors = 100.0, 1
    assert watch.lost() is None
    session.executors = 0
    session.now_s = 159.0
    assert watch.lost() is None
    session.executors = 1
    assert watch.lost() is None, "they came back"
    session.executors, session.now_s = 0, 220.0
    assert watch.lost() == "it has had no executor for 60 s"


def test_a_session_that_the_cluster_ended_is_given_up() -> None:
    session = Context()
    watch = executors.ExecutorWatch(session, lambda: session.now_s)  # type: ignore[arg-type]
    session.stopped = True
    assert watch.lost() == "the cluster ended its application"


def test_a_wait_for_executors_is_told_and_ends_with_the_application() -> None:
    session, reasons = Context(), list[str]()
    session.executors = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "_START_REPORT_DELAY_S", 0.0)
        patch.setattr(executors, "_POLL_INTERVAL_S", 0.0)

        def report(why: str) -> None:
            reasons.append(why)
            session.stopped = True

        with pytest.raises(executors.ExecutorsUnusable, match="did not accept the application, or ended it"):
            executors.await_executor(session, MASTER, report, lambda: False)  # type: ignore[arg-type]
    assert reasons == [f"Spark waits for executors of {MASTER}: are its cores and memory in use by others?"]


def found_by_executors(markers: list[str]) -> list[str]:
    return [row["problem"] for batch in executors.problems(iter([]), markers) for row in batch.to_pylist()]


def test_executors_look_for_the_files_of_the_worker(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.touch()
    assert found_by_executors([str(there)]) == []
    assert found_by_executors(["/nowhere/x"]) == ["they do not see the worker's /nowhere"]


def test_a_module_that_executors_lack_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kraal.engine.records.sink_pass", None)
    (problem,) = found_by_executors([])
    assert problem.startswith("they cannot import what Kraal needs, install it there: ModuleNotFoundError")


def test_a_shared_folder_without_the_worker_is_told(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with (
        pytest.raises(executors.ExecutorsUnusable, match="where the worker cannot write"),
        executors.markers_in([str(tmp_path), str(missing)]),
    ):
        pass
    assert list(tmp_path.iterdir()) == [], "no marker is left"
