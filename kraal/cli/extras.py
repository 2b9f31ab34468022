"""The extras of Kraal's distribution, and what to say when one of them is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PACKAGES: Final[Mapping[str, str]] = {
    "confluent_kafka": "worker",
    "cryptography": "worker",
    "kafka": "worker",
    "numpy": "worker",
    "psutil": "worker",
    "pyarrow": "worker",
    "pykka": "worker",
    "pyspark": "worker",
    "uvloop": "worker",
    "attrs": "registry",
    "authlib": "registry",
    "cachetools": "registry",
    "certifi": "registry",
    "jsonschema": "registry",
    "referencing": "registry",
    "pytest": "test",
}
"""The extra that brings each package, by the name that Python imports."""

ENOUGH: Final[Mapping[str, str]] = {"dlq": "kafka"}
"""Commands for which a smaller extra than the worker's is enough."""

_CALLED: Final[Mapping[str, str]] = {
    "worker": "the worker",
    "registry": "the client of schema registries",
    "test": "pytest",
    "kafka": "Kafka's client",
}


def missing_text(package: str | None, command: str | None) -> str | None:
    """Return what to install for a package that `command` did not find; None if no extra brings it.

    Args:
        package: dotted name of the module, as in ModuleNotFoundError.
        command: subcommand of `kraal`, if known.
    """
    extra = PACKAGES.get((package or "").partition(".")[0])
    if extra is None:
        return None
    if extra == "worker":
        extra = ENOUGH.get(command or "", extra)
    return f"`kraal{f' {command}' if command else ''}` needs {_CALLED[extra]}: pip install 'kraal[{extra}]'"
