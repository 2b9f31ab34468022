"""Tests for the container image, which is built from the Dockerfile and run by an OCI runtime."""

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

MAX_SIZE_MB: Final = 930
MAX_START_S: Final = 1.5
TIMEOUT_S: Final = 120.0
MAX_STARTS: Final = 10
"""Maximum number of measured starts. On a quiet machine, the first start is fast enough."""
LINE_COUNT: Final = 10_000
JDBC_DRIVER: Final = "org.postgresql:postgresql:42.7.14"


@pytest.fixture(scope="module")
def image() -> str:
    """Build the image, and return its name. Takes minutes unless the layers of an earlier build are cached."""
    return build_image()


@pytest.fixture
def image_container(image: str, tmp_path: Path) -> Iterator[Container]:
    """Create a container of the image without running it."""
    with container(image, tmp_path) as created_container:
        yield created_container


def run_health_check(image_container: Container, port: int) -> int:
    """Run the health check of the image in the running container and return its exit code."""
    variables = [*image_container.config["Env"], f"KRAAL_HEALTH_URL=http://127.0.0.1:{port}/health"]
    options = [
        "--user",
        image_container.config["User"],
        *(word for variable in variables for word in ("--env", variable)),
    ]
    command = [
        "crun",
        "--cgroup-manager=disabled",
        "--root",
        str(image_container.directory / "state"),
        "exec",
        *options,
    ]
    result = subprocess.run(
        enter_namespace(*command, image_container.name, *image_container.config["Healthcheck"]["Test"][1:]),
        env=environment(), capture_output=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    return result.returncode


def test_image_does_not_exceed_its_size_limit(image: str) -> None:
    [listing] = json.loads(buildah("images", "--json", image, stdout_only=True))
    number, unit = listing["size"].split()
    assert unit == "MB"
    assert float(number) < MAX_SIZE_MB


def test_user_has_no_capabilities_and_writes_only_to_volumes(image_container: Container) -> None:
    assert image_container.run("id", "-u").stdout == "10001\n"
    assert "CapBnd:\t0000000000000000" in image_container.run("cat", "/proc/self/status").stdout
    listing = image_container.run(
        "find", "/", "-xdev", "(", "-user", "10001", "-o", "-perm", "-o+w", ")", "-not", "-type", "l"
    )
    writable = {path for path in listing.stdout.split() if not path.startswith(("/proc", "/dev"))}
    assert writable == {*VOLUMES, "/run/lock", "/var/tmp"}  # noqa: S108 - the last two are Debian's


def test_image_contains_the_class_archive_for_its_java(image_container: Container) -> None:
    code = "from kraal.jars.class_archive import existing_archive; print(existing_archive())"
    result = image_container.run("python3", "-c", code)
    assert re.fullmatch(r"/opt/kraal/cache/spark-classes-\w+\.jsa\n", result.stdout), (
        result.stdout + result.stderr
    )


def test_worker_copies_records_on_a_read_only_file_system(
    image_container: Container, kafka: Broker, tmp_path: Path
) -> None:
    port, data = free_port(), make_writable_directory(tmp_path / "data")
    source = data / "source"
    source.write_text("".join(f"line {number}\n" for number in range(LINE_COUNT)), encoding="ascii")
    mounts = {write_properties(tmp_path / "etc", kafka, port): "/etc/kraal", data: "/data"}
    with image_container.run_entry_point(mounts) as process, closing(Rest(port)) as rest:
        wait_until("the worker was healthy", rest.is_healthy, timeout_s=TIMEOUT_S)
        assert (run_health_check(image_container, port), run_health_check(image_container, free_port())) == (
            0,
            1,
        )
        topic = f"image-{port}"
        rest.create("source", {"connector.class": "FileStreamSource", "file": "/data/source", "topic": topic})
        rest.create("sink", {"connector.class": "FileStreamSink", "file": "/data/sink", "topics": topic})
        sink = data / "sink"
        wait_until(
            "all lines arrived",
            lambda: sink.exists() and sink.stat().st_size == source.stat().st_size,
            timeout_s=TIMEOUT_S,
        )
        assert sink.read_bytes() == source.read_bytes()
        assert uses_class_archive(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0


@pytest.mark.parametrize("mode", MODES)
def test_rest_responds_soon_after_the_start(image_container: Container, kafka: Broker, mode: str) -> None:
    """At least one of ten starts must be fast; time spent waiting for a CPU core is not counted."""
    slow_starts = list(
        takewhile(
            lambda start: start.unloaded_s >= MAX_START_S,
            measure_starts(image_container, kafka, mode, MAX_STARTS),
        )
    )
    assert len(slow_starts) < MAX_STARTS, slow_starts


def test_derived_image_contains_plugins(tmp_path: Path) -> None:
    with container(build_image([JDBC_DRIVER]), tmp_path) as image_container:
        result = image_container.run("kraal", "plugins", "list", "--lock", "/opt/kraal/plugins.lock")
    assert JDBC_DRIVER in result.stdout, result.stderr


def uses_class_archive(pid: int) -> bool:
    """Return whether a Java child process has mapped Spark's class archive."""
    java_processes = [
        process for process in psutil.Process(pid).children(recursive=True) if process.name() == "java"
    ]
    return any(
        ".jsa" in (mapping.path or "") and "spark-classes" in mapping.path
        for mapping in iterate_mappings(java_processes)
    )


def iterate_mappings(processes: list[psutil.Process]) -> Iterator[Any]:
    """Yield the memory mappings of processes."""
    for process in processes:
        yield from process.memory_maps()
