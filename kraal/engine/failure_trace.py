"""Traces of failed tasks: the root cause, then the location, then the stack; of limited length and without secrets.

A Spark failure is wrapped in up to five exceptions (Kraal's, py4j's, Spark's job abort, the Spark task's, Kafka's).
Users need the innermost message, also in `GET /status`, so this module puts it on the first line, and omits frames of
py4j and Spark from the stack.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from typing import Any

from kraal.core.secrets import secrets
from kraal.engine.records.fault import ToleranceExceeded

MAX_CHARS = 8_000
"""Approximate maximum length of a trace, which is part of status records."""

_NOISE = re.compile(
    r"""^\s*(?:at\ (?:py4j|java\.base|java\.|jdk\.internal|scala\.|org\.apache\.spark\.)"""
    r"""|File\ ".*/(?:py4j/|pyspark/errors/exceptions/captured\.py)"""
    r"""|Driver\ stacktrace:|\.\.\.\ \d+\ more)""",
    re.VERBOSE,
)
"""Matches lines that do not identify the error, such as frames of py4j, Spark, Scala and the JDK."""
_LOST_TASK = re.compile(r"most recent failure: Lost task [^:]*\): (?P<cause>.+?)(?:\n|$)")
_USER_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] (?P<text>.*?)(?: SQLSTATE: \w+)?$", re.DOTALL)
_PYTHON_ERROR = re.compile(r"^(?P<line>[A-Za-z_][\w.]*(?:: .*)?)$")
UNREADABLE = re.compile(
    r"The (?P<part>key|value) of (?P<topic>\S+)-(?P<partition>\d+)@(?P<offset>\d+) cannot be converted: "
)
"""Matches the root cause of a job that failed at a record that a converter cannot read (`kraal.engine.sink.frame`)."""
_BROKER_FAILURE = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|BrokerNotAvailable|LeaderNotAvailable|"
    r"NotLeaderOrFollower|ReplicaNotAvailable|NotEnoughReplicas|NotEnoughReplicasAfterAppend|KafkaStorage)Exception\b"
    r"|java\.util\.concurrent\.TimeoutException: Cannot fetch record for offset "
    r"|org\.apache\.kafka\.common\.KafkaException: Producer (?:is closed forcefully|closed while send in progress)"
    r"|java\.lang\.IllegalStateException: Cannot perform operation after producer has been closed"
)
"""Matches the start of root causes that do not recur once Kafka's brokers are available again.

The last three patterns match errors of Spark's KafkaDataConsumer and of producers that were closed during a job
(`kraal.engine.kafka_io.producers`).
"""
_MAX_CAUSES = 20


def failure_trace(error: BaseException, location: str) -> str:
    """Return the trace for `error`, which was raised in `location` (`task name-0, batch 7`).

    The trace consists of the root cause, the location, and the stacks of Java and Python without noisy frames. Must be
    called on a thread that may block, because it may call the JVM to find the causes.
    """
    if isinstance(error, ToleranceExceeded):
        head = f"{error.root}\n  in {location}\n"
        return _limit(secrets.scrub(error.root), secrets.scrub(head + error.text))
    java = _java_throwable(error)
    root = root_cause(error)
    parts = [root, f"  in {location}"]
    if is_conversion_failure(root):
        parts.append(f"org.apache.kafka.connect.errors.ConnectException: {ToleranceExceeded.TEXT}")
    if java is not None:
        parts.append(_java_stack(java) or str(error))
    parts.append("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    return _limit(secrets.scrub(root), secrets.scrub(_without_noise("\n".join(parts))))


def is_conversion_failure(text: str) -> bool:
    """Return whether a trace starts with the error for a sink's record that a converter cannot read."""
    return UNREADABLE.match(text) is not None


def root_cause(error: BaseException) -> str:
    """Return the innermost cause of `error` as one line, `Type: message`."""
    java = _java_throwable(error)
    if java is not None:
        text = _java_root(java)
        if text:
            return one_line(text)
    innermost = error
    for _ in range(_MAX_CAUSES):
        cause = innermost.__cause__
        if cause is None:
            break
        innermost = cause
    text = str(innermost)
    name = type(innermost).__name__
    return one_line(f"{name}: {text}" if text else name)


def one_line(text: str) -> str:
    """Return the first meaningful line of a Java or Python error's text."""
    if user_match := _USER_RAISED.search(text):
        text = user_match["text"]
    if task_match := _LOST_TASK.search(text):
        text = task_match["cause"]
    if "Traceback (most recent call last)" in text:
        lines = [m["line"] for line in text.splitlines() if (m := _PYTHON_ERROR.match(line.rstrip()))]
        if lines:
            return lines[-1][:1000]
    return text.strip().split("\n", 1)[0][:1000]


def is_bridge_failure(error: BaseException) -> bool:
    """Return whether the connection to Spark's JVM broke, as opposed to an error in the JVM."""
    names = {
        "Py4JNetworkError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "BrokenPipeError",
        "EOFError",
    }
    link: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if link is None:
            return False
        if type(link).__name__ in names or "Answer from Java side is empty" in str(link):
            return True
        if type(link).__name__ == "Py4JError" and "while calling" in str(link):
            return True
        link = link.__cause__ or link.__context__
    return False


def find_broker_failure(error: BaseException) -> str | None:
    """Return the root cause of `error` if Kafka's brokers were unavailable to the JVM; otherwise None.

    May call the JVM, like `failure_trace`.
    """
    root = root_cause(error)
    return root if _BROKER_FAILURE.match(root) else None


def is_context_lost(error: BaseException) -> bool:
    """Return whether the SparkContext was stopped in a JVM that is still running."""
    return any(word in str(error) for word in ("SparkContext was shut down", "stopped SparkContext"))


def _java_throwable(error: BaseException) -> Any:
    for link in _python_chain(error):
        java = getattr(link, "java_exception", None) or getattr(link, "_origin", None)
        if java is not None:
            return java
    return None


def _python_chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if link is None:
            return
        yield link
        link = link.__cause__


def _java_root(java: Any) -> str | None:
    try:
        for _ in range(_MAX_CAUSES):
            cause = java.getCause()
            if cause is None:
                break
            java = cause
        return str(java.toString())
    except Exception:  # noqa: BLE001 - without a JVM, the caller uses Python's text
        return None


def _java_stack(java: Any) -> str | None:
    try:
        frames = [f"    at {frame}" for frame in java.getStackTrace()][:12]
        return "\n".join([f"Java: {java.getClass().getName()}", *frames])
    except Exception:  # noqa: BLE001 - as above
        return None


def _without_noise(text: str) -> str:
    """Remove noisy frames and the source lines that Python prints below them."""
    result: list[str] = []
    is_below_noise = False
    for line in text.splitlines():
        is_noise = _NOISE.match(line) is not None
        if is_below_noise and line.startswith("    ") and not is_noise:
            continue
        is_below_noise = is_noise and line.lstrip().startswith("File ")
        if not is_noise:
            result.append(line)
    return "\n".join(result)


def _limit(root: str, text: str) -> str:
    if len(text) <= MAX_CHARS:
        return text
    half = (MAX_CHARS - 40) // 2
    head = text[: max(half, len(root) + 1)]
    return f"{head}\n    … {len(text) - 2 * half} characters omitted …\n{text[-half:]}"
