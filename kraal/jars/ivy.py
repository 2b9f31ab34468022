"""Downloads jars and archives with Apache Ivy, which PySpark includes and which requires only Java.

Ivy's cache and user directory are in a scratch directory, so that the result depends only on the repository and not on
files of other builds in the home directory.
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

from kraal.jars.directories import pyspark_jars
from kraal.jars.errors import JarsUnavailable
from kraal.jars.java import find_java

STALL_TIMEOUT_S = 120.0
"""Time without output after which Ivy is killed, because connections may hang without a network."""

_ARCHIVE = "archive"
"""The Ivy type assigned to files other than jars, so that they are retrieved."""

Progress = Callable[[int, int], None]
"""Receives the numbers of resolved modules and of downloaded jars."""

_MIRROR_HINT = "To use another Maven repository, set KRAAL_IVY_SETTINGS to the path of an ivysettings.xml."
_NETWORK_ERROR = re.compile(
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
        """Whether this is a file other than the module's jar."""
        return bool(self.classifier) or self.extension != "jar"

    @property
    def file_name(self) -> str:
        """The name of the file in Kraal's directories. Unlike Maven's file names, it is unique."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.org}__{self.name}__{self.revision}{classifier}.{self.extension}"

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Parse coordinates in either format. Raises ValueError."""
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
    modules: Iterable[Coordinates], directory: Path, *, transitive: bool, progress: Progress
) -> list[Path]:
    """Download the jars of modules, and of their dependencies if `transitive`; return the paths of the jars.

    Args:
        modules: the modules.
        directory: an existing scratch directory for the jars and for Ivy's cache.
        transitive: whether to resolve the dependencies that POMs declare.
        progress: called at least every half second.

    Raises:
        JarsUnavailable: a module does not exist, or the network is unavailable.
        JavaMissing: no Java was found to run Ivy.
    """
    description = directory / "ivy.xml"
    description.write_text(describe_modules(modules, transitive=transitive), encoding="utf-8")
    pattern = f"{directory}/jars/[organisation]__[artifact]__[revision](-[classifier]).[ext]"
    # The types are separate arguments, because Ivy parses "jar,bundle" as one type. OSGi jars have the type bundle.
    command = [
        *ivy_command(directory, description),
        "-types",
        "jar",
        "bundle",
        _ARCHIVE,
        "-retrieve",
        pattern,
    ]
    code, output = _run_ivy(command, progress)
    if code != 0:
        missing_modules = () if _NETWORK_ERROR.search(output) else _find_missing(output)
        raise JarsUnavailable(_describe_failure(output), hint=_MIRROR_HINT, missing=missing_modules)
    return sorted((directory / "jars").glob("*"))


def ivy_command(directory: Path, description: Path) -> list[str]:
    """Return the command that runs Ivy for `description`. Ivy writes only to `directory`.

    Raises JarsUnavailable, JavaMissing.
    """
    command = [str(find_java()), f"-Divy.default.ivy.user.dir={directory}/user", "-jar", str(_find_ivy_jar())]
    if settings := os.environ.get("KRAAL_IVY_SETTINGS"):
        command += ["-settings", settings]
    return [*command, "-cache", f"{directory}/cache", "-ivy", str(description), "-confs", "default"]


def describe_modules(modules: Iterable[Coordinates], *, transitive: bool) -> str:
    """Return the content of the ivy.xml for these modules."""
    lines = "\n".join(
        f"<dependency org={quoteattr(module.org)} name={quoteattr(module.name)} rev={quoteattr(module.revision)}"
        f' conf="default-&gt;default" transitive="{str(transitive and not module.is_other_file).lower()}">'
        f"{_artifact_element(module)}</dependency>"
        for module in modules
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="kraal" module="jars"/>'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>\n{lines}\n</dependencies></ivy-module>\n"
    )


def _artifact_element(module: Coordinates) -> str:
    """Return the element for a file other than the module's jar; empty for a jar."""
    if not module.is_other_file:
        return ""
    classifier = f" m:classifier={quoteattr(module.classifier)}" if module.classifier else ""
    return (
        f'<artifact name={quoteattr(module.name)} type="{_ARCHIVE}" ext={quoteattr(module.extension)}'
        f"{classifier}/>"
    )


def _find_ivy_jar() -> Path:
    for jar in pyspark_jars("ivy-*.jar"):
        return jar
    raise JarsUnavailable("PySpark's jars/ivy-*.jar was not found; install Kraal with its dependencies.")


def _run_ivy(command: list[str], progress: Progress) -> tuple[int, str]:
    """Run Ivy; return its exit code and output."""
    with (
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        if process.stdout is None:
            raise JarsUnavailable("Failed to start Ivy.")
        output = b""
        last_output_s = time.monotonic()
        selector.register(process.stdout, selectors.EVENT_READ)
        try:
            while True:
                if selector.select(timeout=0.5):
                    chunk = os.read(process.stdout.fileno(), 65536)
                    if not chunk:
                        break
                    output += chunk
                    last_output_s = time.monotonic()
                elif time.monotonic() - last_output_s > STALL_TIMEOUT_S:
                    raise JarsUnavailable(
                        f"Downloading jars made no progress for {STALL_TIMEOUT_S:.0f} s; check the network connection.",
                        hint=_MIRROR_HINT,
                    )
                progress(output.count(b"\tfound "), output.count(b"[SUCCESSFUL ]"))
        finally:
            process.kill()  # no effect if it has already exited
        return process.wait(), output.decode(errors="replace")


def _find_missing(output: str) -> list[str]:
    """Return the coordinates of the modules that Ivy did not find."""
    matches = re.findall(r"module not found: (\S+)|(\S+): not found", output)
    return sorted({(module or file).replace("#", ":").replace(";", ":") for module, file in matches} - {""})


def _describe_failure(output: str) -> str:
    """Return an error message for Ivy's output."""
    names = _find_missing(output)
    subject = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names) or "the jars"
    if _NETWORK_ERROR.search(output):
        return (
            f"Failed to download {subject}: cannot reach the Maven repository; check the network connection."
        )
    last_line = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "nothing")
    return f"Failed to download {subject}: " + (
        "not found in the Maven repository." if names else f"Ivy reported: {last_line}"
    )
