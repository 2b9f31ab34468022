"""Download of jars and archives with the Apache Ivy that PySpark contains, which requires only Java.

Ivy runs with its own cache and user directory in a scratch directory, so that the result depends only on the repository
and not on files of other builds in the home directory.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from typing_extensions import override

from kraal.jars.errors import JarsUnavailable
from kraal.jars.java import find_java
from kraal.jars.places import pyspark_jars

STALL_S = 120.0
"""Ivy is killed after this time without output, because connections may hang without a network."""

_ARCHIVE = "archive"
"""The type that files other than jars are given, so that they are retrieved."""

Progress = Callable[[int, int], None]
"""Called with the numbers of modules resolved and jars downloaded so far."""

_MIRROR = "To use another Maven repository, set KRAAL_IVY_SETTINGS to the path of an ivysettings.xml."
_OFFLINE = re.compile(
    r"Host .* not found|unreachable|refused|timed out|UnknownHost|SocketException", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, order=True)
class Coordinates:
    """Maven coordinates: `org:name:revision` of a jar, `org:name:extension[:classifier]:revision` of another file."""

    org: str
    name: str
    revision: str
    classifier: str = ""
    extension: str = "jar"

    @override
    def __str__(self) -> str:
        if self.classifier:
            return f"{self.org}:{self.name}:{self.extension}:{self.classifier}:{self.revision}"
        if self.is_other_file:
            return f"{self.org}:{self.name}:{self.extension}:{self.revision}"
        return f"{self.org}:{self.name}:{self.revision}"

    @property
    def is_other_file(self) -> bool:
        """Whether it is not the module's jar."""
        return bool(self.classifier) or self.extension != "jar"

    @property
    def file_name(self) -> str:
        """Name of the file in Kraal's directories; unlike Maven's names it is unique."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.org}__{self.name}__{self.revision}{classifier}.{self.extension}"

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Parse any form. Raises ValueError."""
        match text.split(":"):
            case [org, name, revision]:
                return cls(org, name, revision)
            case [org, name, extension, revision]:
                return cls(org, name, revision, extension=extension)
            case [org, name, extension, classifier, revision]:
                return cls(org, name, revision, classifier, extension)
            case _:
                raise ValueError(text)


def retrieve(
    wanted: Iterable[Coordinates], into: Path, *, transitive: bool, progress: Progress
) -> list[Path]:
    """Download the jars of `wanted`, and their dependencies if `transitive`, into the directory `into`.

    Args:
        wanted: the modules.
        into: an existing scratch directory, also used for Ivy's cache.
        transitive: whether to resolve the dependencies that POMs declare.
        progress: called at least every half second.

    Raises:
        JarsUnavailable: a module does not exist, or the network is unavailable.
        JavaMissing: no Java was found to run Ivy with.
    """
    description = into / "ivy.xml"
    description.write_text(describe(wanted, transitive=transitive), encoding="utf-8")
    pattern = f"{into}/jars/[organisation]__[artifact]__[revision](-[classifier]).[ext]"
    # Two words after -types: Ivy reads "jar,bundle" as one type. Without bundle, OSGi jars are missing.
    command = [*ivy_command(into, description), "-types", "jar", "bundle", _ARCHIVE, "-retrieve", pattern]
    code, output = _run(command, progress)
    if code != 0:
        missing = () if _OFFLINE.search(output) else _missing(output)
        raise JarsUnavailable(_sentence(output), hint=_MIRROR, missing=missing)
    return sorted((into / "jars").glob("*"))


def ivy_command(into: Path, description: Path) -> list[str]:
    """Return the command that runs Ivy for `description`, with everything that it writes in the directory `into`.

    Raises JarsUnavailable, JavaMissing.
    """
    command = [str(find_java()), f"-Divy.default.ivy.user.dir={into}/user", "-jar", str(_ivy_jar())]
    if settings := os.environ.get("KRAAL_IVY_SETTINGS"):
        command += ["-settings", settings]
    return [*command, "-cache", f"{into}/cache", "-ivy", str(description), "-confs", "default"]


def describe(wanted: Iterable[Coordinates], *, transitive: bool) -> str:
    """Return the text of the file that tells Ivy what to retrieve."""
    lines = "\n".join(
        f"<dependency org={quoteattr(c.org)} name={quoteattr(c.name)} rev={quoteattr(c.revision)}"
        f' conf="default-&gt;default" transitive="{str(transitive and not c.is_other_file).lower()}">'
        f"{_artifact(c)}</dependency>"
        for c in wanted
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="kraal" module="jars"/>'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>\n{lines}\n</dependencies></ivy-module>\n"
    )


def _artifact(wanted: Coordinates) -> str:
    """Return the element for a file other than the module's jar."""
    if not wanted.is_other_file:
        return ""
    classifier = f" m:classifier={quoteattr(wanted.classifier)}" if wanted.classifier else ""
    return (
        f'<artifact name={quoteattr(wanted.name)} type="{_ARCHIVE}" ext={quoteattr(wanted.extension)}'
        f"{classifier}/>"
    )


def _ivy_jar() -> Path:
    for jar in pyspark_jars("ivy-*.jar"):
        return jar
    raise JarsUnavailable("PySpark's jars/ivy-*.jar was not found; install Kraal with its dependencies.")


def _run(command: list[str], progress: Progress) -> tuple[int, str]:
    """Run Ivy and return its exit code and output."""
    with (
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        if process.stdout is None:
            raise JarsUnavailable("Failed to start Ivy.")
        output = b""
        last_word = time.monotonic()
        selector.register(process.stdout, selectors.EVENT_READ)
        try:
            while True:
                if selector.select(timeout=0.5):
                    chunk = os.read(process.stdout.fileno(), 65536)
                    if not chunk:
                        break
                    output += chunk
                    last_word = time.monotonic()
                elif time.monotonic() - last_word > STALL_S:
                    raise JarsUnavailable(
                        f"Downloading jars made no progress for {STALL_S:.0f} s; check the network connection.",
                        hint=_MIRROR,
                    )
                progress(output.count(b"\tfound "), output.count(b"[SUCCESSFUL ]"))
        finally:
            process.kill()  # no effect if it has already exited
        return process.wait(), output.decode(errors="replace")


def _missing(output: str) -> list[str]:
    """Return the coordinates of the modules that Ivy has not found."""
    found = re.findall(r"module not found: (\S+)|(\S+): not found", output)
    return sorted({(a or b).replace("#", ":").replace(";", ":") for a, b in found} - {""})


def _sentence(output: str) -> str:
    """Return Ivy's output as one sentence."""
    names = _missing(output)
    what = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names) or "the jars"
    if _OFFLINE.search(output):
        return f"Failed to download {what}: cannot reach the Maven repository; check the network connection."
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "nothing")
    return f"Failed to download {what}: " + (
        "not found in the Maven repository." if names else f"Ivy reported: {last}"
    )
