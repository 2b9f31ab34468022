"""The container image, built from the Dockerfile and run by an OCI runtime as a user would run it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from kraal.broker.broker import Broker, free_port
from scripts.harness.processes import wait_until
from scripts.harness.rest import Rest
from tests.tools.image.build import build_image, buildah, enter_namespace, environment
from tests.tools.image.container import STOP_TIMEOUT_S, VOLUMES, Container, container
from tests.tools.image.start import MODES, measure_starts
from tests.tools.image.worker import make_writable_directory, write_properties

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]  # the first test builds the image

MEGABYTES: Final = 930
REST_S: Final = 1.5
UP_S: Final = 120.0
STARTS: Final = 10
"""At most; on a quiet machine the first one is fast enough."""
LINES: Final = 10_000
DRIVER: Final = "org.postgresql:postgresql:42.7.14"


@pytest.fixture(scope="module")
def image() -> str:
    """Return the name of the image; building takes minutes if there are no layers of an earlier build."""
    return build_image()


@pytest.fixture
def made(image: str, tmp_path: Path) -> Iterator[Container]:
    """A container of the image that does not run yet."""
    with container(image, tmp_path) as each:
        yield each


def probed(made: Container, port: int) -> int:
    """Run the health check of the image in the running container and return its exit code."""
    variables = [*made.config["Env"], f"KRAAL_HEALTH_URL=http://127.0.0.1:{port}/health"]
    options = ["--user", made.config["User"], *(word for each in variables for word in ("--env", each))]
    command = ["crun", "--cgroup-manager=disabled", "--root", str(made.directory / "state"), "exec", *options]
    done = subprocess.run(
        enter_namespace(*command, made.name, *made.config["Healthcheck"]["Test"][1:]),
        env=environment(), capture_output=True, check=False, timeout=UP_S,
    )  # fmt: skip
    return done.returncode


def test_the_image_is_small(image: str) -> None:
    [shown] = json.loads(buildah("images", "--json", image, text=True))
    number, unit = shown["size"].split()
    assert unit == "MB"
    assert float(number) < MEGABYTES


def test_the_user_has_no_rights_and_writes_nowhere_else(made: Container) -> None:
    assert made.run("id", "-u").stdout == "10001\n"
    assert "CapBnd:\t0000000000000000" in made.run("cat", "/proc/self/status").stdout
    found = made.run(
        "find", "/", "-xdev", "(", "-user", "10001", "-o", "-perm", "-o+w", ")", "-not", "-type", "l"
    )
    own = {path for path in found.stdout.split() if not path.startswith(("/proc", "/dev"))}
    assert own == {*VOLUMES, "/run/lock", "/var/tmp"}  # noqa: S108 - the last two are Debian's


def test_the_archive_of_sparks_classes_is_the_one_that_java_would_use(made: Container) -> None:
    code = "from kraal.jars.class_archive import existing_archive; print(existing_archive())"
    done = made.run("python3", "-c", code)
    assert re.fullmatch(r"/opt/kraal/cache/spark-classes-\w+\.jsa\n", done.stdout), done.stdout + done.stderr


def test_a_worker_moves_records_on_a_read_only_file_system(
    made: Container, kafka: Broker, tmp_path: Path
) -> None:
    port, data = free_port(), make_writable_directory(tmp_path / "data")
    source = data / "source"
    source.write_text("".join(f"line {number}\n" for number in range(LINES)), encoding="ascii")
    mounts = {write_properties(tmp_path / "etc", kafka, port): "/etc/kraal", data: "/data"}
    with made.run_entry_point(mounts) as process, closing(Rest(port)) as rest:
        wait_until("the worker is healthy", rest.is_healthy, timeout_s=UP_S)
        assert (probed(made, port), probed(made, free_port())) == (0, 1)
        topic = f"image-{port}"
        rest.create("source", {"connector.class": "FileStreamSource", "file": "/data/source", "topic": topic})
        rest.create("sink", {"connector.class": "FileStreamSink", "file": "/data/sink", "topics": topic})
        sink = data / "sink"
        wait_until(
            "all lines arrived",
            lambda: sink.exists() and sink.stat().st_size == source.stat().st_size,
            timeout_s=UP_S,
        )
        assert sink.read_bytes() == source.read_bytes()
        assert uses_the_archive(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0


@pytest.mark.parametrize("mode", MODES)
def test_rest_answers_soon_after_the_start(made: Container, kafka: Broker, mode: str) -> None:
    """One of ten starts, in which waiting for a core that others had is not counted."""
    slow = list(takewhile(lambda each: each.unloaded_s >= REST_S, measure_starts(made, kafka, mode, STARTS)))
    assert len(slow) < STARTS, slow


def test_plugins_are_a_layer_on_top(tmp_path: Path) -> None:
    with container(build_image([DRIVER]), tmp_path) as made:
        done = made.run("kraal", "plugins", "list", "--lock", "/opt/kraal/plugins.lock")
    assert DRIVER in done.stdout, done.stderr


def uses_the_archive(pid: int) -> bool:
    """Return whether the Java below a process has mapped the archive of Spark's classes."""
    java = [each for each in psutil.Process(pid).children(recursive=True) if each.name() == "java"]
    return any(".jsa" in (each.path or "") and "spark-classes" in each.path for each in maps(java))


def maps(processes: list[psutil.Process]) -> Iterator[Any]:
    """Yield what processes have mapped."""
    for each in processes:
        yield from each.memory_maps()
