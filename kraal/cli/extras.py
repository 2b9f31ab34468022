"""The extras of Kraal's distribution, and the error message if an extra is not installed."""

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
    "regex": "worker",
    "uvloop": "worker",
    "attrs": "registry",
    "authlib": "registry",
    "cachetools": "registry",
    "certifi": "registry",
    "jsonschema": "registry",
    "referencing": "registry",
    "deltalake": "lake",
    "pyiceberg": "lake",
    "pyiceberg_core": "lake",
    "sqlalchemy": "lake",
    "pytest": "test",
}
"""The extra that contains each package, by import name."""

SMALLER_EXTRAS: Final[Mapping[str, str]] = {"dlq": "kafka"}
"""Commands that require a smaller extra than `worker`."""

_TITLES: Final[Mapping[str, str]] = {
    "worker": "the worker",
    "registry": "the client of schema registries",
    "lake": "Iceberg and Delta tables",
    "test": "pytest",
    "kafka": "Kafka's client",
}


def missing_text(module: str | None, command: str | None) -> str | None:
    """Return an error that names the extra that contains a missing module; None if no extra contains it.

    Args:
        module: dotted name of the module, as in ModuleNotFoundError.
        command: subcommand of `kraal`, if known.
    """
    extra = PACKAGES.get((module or "").partition(".")[0])
    if extra is None:
        return None
    if extra == "worker":
        extra = SMALLER_EXTRAS.get(command or "", extra)
    return f"`kraal{f' {command}' if command else ''}` needs {_TITLES[extra]}: pip install 'kraal[{extra}]'"
