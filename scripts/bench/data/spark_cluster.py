"""`spark-cluster`: eight files of lines through SparkSource into a topic, on two executors of a Spark cluster.

The other side is not a Java worker but a plain Spark job on two executors of the same cluster, with the same settings
of Spark and of the producer. Kraal is measured from the moment when the files are in the directory until the last
record is in the topic. The plain job measures its own duration.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from kraal.engine.client_options import producer_options
from kraal.jars.jars import ensure
from scripts.bench.lab import Lab, say
from scripts.bench.report import Case, Target
from scripts.harness.lines import write_lines
from scripts.harness.processes import Running, ScriptFailed, wait_until
from scripts.harness.workers import Worker, kraal_standalone
from scripts.spark_cluster.standalone import SparkStandalone

FILES = 8
TIMEOUT_S = 300.0
_SPARK = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.driver.memory": "1g",
    "spark.default.parallelism": "2",
}
_ROOT = Path(__file__).parents[3]


def run(lab: Lab) -> list[Case]:
    """Send the same files through both sides, in turns."""
    cluster = SparkStandalone(lab.directory / "spark")
    running: list[Running] = []
    try:
        cluster.start()
        say("starting both applications")
        requests = lab.directory / "requests"
        running.append(_start_plain_job(lab, cluster, requests))
        worker = _start_worker(lab, cluster)
        running.append(worker.process)
        figures: dict[str, list[float]] = {"java": [], "kraal": []}
        for number in range(1 + lab.options.times(5, 2)):
            sides = ("java", "kraal") if number % 2 else ("kraal", "java")
            for side in sides:
                rate = _measure_plain(lab, requests) if side == "java" else _measure_kraal(lab, worker)
                say(f"{'Kraal' if side == 'kraal' else 'plain job'}, round {number}: {rate:,.0f} records/s")
                if number:  # the first round warms up
                    figures[side].append(rate)
    finally:
        for process in reversed(running):
            process.stop()
        cluster.stop()
    name = "lines on two executors (Java: a plain Spark job)"
    wanted = Target(ratio=0.9)
    return [Case(name, "records/s", figures["java"], figures["kraal"], more_is_better=True, wanted=wanted)]


def _write_files(lab: Lab, folder: Path) -> int:
    """Write the files into a new folder; return the number of lines."""
    folder.mkdir()
    lines_per_file = lab.options.lines() // FILES
    for number in range(FILES):
        write_lines(folder / f"{number}.txt", lines_per_file, first=number * lines_per_file)
    return lines_per_file * FILES


def _start_plain_job(lab: Lab, cluster: SparkStandalone, requests: Path) -> Running:
    requests.mkdir()
    jars = ",".join(str(jar) for jar in ensure("spark"))
    settings = {**cluster.settings, **_SPARK, "spark.jars": jars, "spark.ui.enabled": "false"}
    file = requests.with_suffix(".settings")
    file.touch(mode=0o600)
    file.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "scripts.spark_cluster.plain_job", str(file), str(requests)]
    process = Running(command, log=lab.directory / "plain.log", cwd=_ROOT, env=os.environ)
    wait_until(
        "the plain job's application was up", (requests / "up").exists, timeout_s=TIMEOUT_S, program=process
    )
    return process


def _measure_plain(lab: Lab, requests: Path) -> float:
    name, topic = lab.new_name("request"), lab.topic("plain")
    folder = lab.directory / name
    count = _write_files(lab, folder)
    options = producer_options({"bootstrap.servers": lab.bootstrap}, {}, "plain") | {"topic": topic}
    request = requests / f"{name}.new"
    request.write_text(json.dumps({"path": str(folder), "options": options}))
    lab.settle()
    request.rename(request.with_suffix(".json"))
    done_file = request.with_suffix(".done")
    wait_until("the plain job had finished", done_file.exists, timeout_s=TIMEOUT_S)
    _check(lab, topic, count)
    return count / float(done_file.read_text())


def _start_worker(lab: Lab, cluster: SparkStandalone) -> Worker:
    directory = lab.directory / lab.new_name("kraal")
    directory.mkdir()
    extra = {**cluster.settings, **_SPARK, "spark.cluster.shared.paths": str(lab.directory)}
    worker = kraal_standalone(lab.bootstrap, directory, extra=extra)
    worker.wait_until_up()
    return worker


def _measure_kraal(lab: Lab, worker: Worker) -> float:
    name, topic = lab.new_name("files"), lab.topic("kraal")
    staging, folder = lab.directory / f".{name}", lab.directory / name
    folder.mkdir()
    count = _write_files(lab, staging)
    config = {"connector.class": "SparkSource", "spark.format": "text", "path": str(folder), "topic": topic}
    worker.rest.create(name, config | {"spark.poll.interval.ms": "20"})
    worker.wait_until_running(name)
    lab.settle()
    reader = lab.reader(topic)
    start_s = time.monotonic()
    for file in staging.iterdir():
        file.rename(folder / file.name)
    wait_until(
        "all records were in the topic",
        lambda: reader.end() >= count,
        timeout_s=TIMEOUT_S,
        program=worker.process,
    )
    seconds = time.monotonic() - start_s
    _check(lab, topic, count)
    worker.rest.delete(name)
    return count / seconds


def _check(lab: Lab, topic: str, count: int) -> None:
    end = lab.reader(topic).end()
    if end != count:
        raise ScriptFailed(f"The topic {topic} has {end} records instead of {count}.")
