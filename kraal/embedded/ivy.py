"""Run the Apache Ivy that PySpark ships: it fetches jars with nothing but Java.

Ivy runs in a scratch directory with a cache and a user directory of its own, so that what it finds depends on
the repository alone and never on what another build left in the home directory.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from typing_extensions import override

from kraal.embedded.errors import JarsUnavailable
from kraal.embedded.java import find_java

STALL_S = 120.0
"""Ivy that prints nothing for this long is ended: without a network some machines let connections hang."""

Progress = Callable[[int, int], None]
"""Called with the number of modules looked up and of jars fetched so far."""

_OFFLINE = re.compile(
    r"Host .* not found|unreachable|refused|timed out|UnknownHost|SocketException", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, order=True)
class Coordinates:
    """A module of a Maven repository; `str()` is `org:name:revision`."""

    org: str
    name: str
    revision: str

    @override
    def __str__(self) -> str:
        return f"{self.org}:{self.name}:{self.revision}"

    @property
    def file_name(self) -> str:
        """The name of the jar in our directories; unlike Maven's it cannot collide."""
        return f"{self.org}__{self.name}__{self.revision}.jar"

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Read `org:name:revision`. Raises ValueError."""
        org, name, revision = text.split(":")
        return cls(org, name, revision)


def retrieve(
    wanted: Iterable[Coordinates], into: Path, *, transitive: bool, progress: Progress
) -> list[Path]:
    """Fetch the jars of `wanted` into the directory `into`, and what they need if `transitive`.

    Args:
        wanted: the modules.
        into: an existing scratch directory; Ivy's own cache is put there too.
        transitive: whether to resolve dependencies as their POMs declare them.
        progress: called at least every half second.

    Raises:
        JarsUnavailable: a module is not there, or the network is not.
        JavaMissing: there is no Java to run Ivy with.
    """
    description = into / "ivy.xml"
    description.write_text(_describe(wanted, transitive=transitive), encoding="utf-8")
    pattern = f"{into}/jars/[organisation]__[artifact]__[revision].[ext]"
    command = [str(find_java()), f"-Divy.default.ivy.user.dir={into}/user", "-jar", str(_ivy_jar())]
    if settings := os.environ.get("KRAAL_IVY_SETTINGS"):
        command += ["-settings", settings]
    # Two words after -types: Ivy reads "jar,bundle" as one type. Without bundle, OSGi jars are missing.
    command += ["-cache", f"{into}/cache", "-ivy", str(description), "-confs", "default"]
    command += ["-types", "jar", "bundle", "-retrieve", pattern]
    code, output = _run(command, progress)
    if code != 0:
        raise JarsUnavailable(_sentence(output))
    return sorted((into / "jars").glob("*.jar"))


def _describe(wanted: Iterable[Coordinates], *, transitive: bool) -> str:
    lines = "\n".join(
        f"<dependency org={quoteattr(c.org)} name={quoteattr(c.name)} rev={quoteattr(c.revision)}"
        f' conf="default-&gt;default" transitive="{str(transitive).lower()}"/>'
        for c in wanted
    )
    return (
        '<ivy-module version="2.0"><info organisation="kraal" module="jars"/>'
        '<configurations><conf name="default"/></configurations>\n'
        f"<dependencies>\n{lines}\n</dependencies></ivy-module>\n"
    )


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")  # finds it without importing it
    for place in (spec.submodule_search_locations or []) if spec else []:
        for jar in (Path(place) / "jars").glob("ivy-*.jar"):
            return jar
    raise JarsUnavailable("PySpark's jars/ivy-*.jar was not found; install Kraal with its dependencies.")


def _run(command: list[str], progress: Progress) -> tuple[int, str]:
    """Run Ivy to its end; return its exit code and all that it printed."""
    with (
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
        selectors.DefaultSelector() as selector,
    ):
        if process.stdout is None:
            raise JarsUnavailable("Ivy could not be started.")
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
                        f"Fetching jars has made no progress for {STALL_S:.0f} s; is there a network?"
                    )
                progress(output.count(b"\tfound "), output.count(b"[SUCCESSFUL ]"))
        finally:
            process.kill()  # does nothing to one that has ended
        return process.wait(), output.decode(errors="replace")


def _sentence(output: str) -> str:
    """Make one sentence of Ivy's report."""
    missing = re.findall(r"module not found: (\S+)|(\S+): not found", output)
    names = sorted({(a or b).replace("#", ":").replace(";", ":") for a, b in missing} - {""})
    what = f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else "".join(names) or "the jars"
    if _OFFLINE.search(output):
        return f"Could not fetch {what}: the Maven repository cannot be reached; is there a network?"
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "nothing")
    return f"Could not fetch {what}: " + (
        "the Maven repository does not have it." if names else f"Ivy said: {last}"
    )
