"""Subject of the checks: a worker's properties file, parsed as the worker parses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kraal.config.properties_file import read_properties
from kraal.config.worker.config import WorkerConfig
from kraal.config.worker.distributed import DistributedConfig, load_distributed
from kraal.config.worker.standalone import load_standalone
from kraal.core.errors import ConfigInvalid, KraalError
from kraal.doctor.finding import Finding, Level, passed
from kraal.java_plugins.services import resolve_worker_config
from kraal.plugins.registry import Registry

_FILE_KIND = "worker configuration"
_DISTRIBUTED_KEYS = ("group.id", "config.storage.topic")
"""Keys that only distributed workers have."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A worker, described by the valid part of its properties file."""

    file: Path | None = None
    raw: Mapping[str, str] = field(default_factory=dict)
    """The file's properties as written."""
    config: WorkerConfig | None = None
    """The parsed config; None if there is no file, or if the file is invalid."""

    @property
    def distributed(self) -> DistributedConfig | None:
        """The config of a distributed worker; None for any other worker."""
        return self.config if isinstance(self.config, DistributedConfig) else None


def read_subject(file: Path) -> tuple[Subject, list[Finding]]:
    """Read a worker's properties file; return the worker, and findings about the validity of the file."""
    raw: Mapping[str, str] = {}
    try:
        raw = read_properties(file, _FILE_KIND)
        load = load_distributed if any(key in raw for key in _DISTRIBUTED_KEYS) else load_standalone
        config: WorkerConfig = load(
            file, resolve=Registry.load().resolve, resolve_variables=resolve_worker_config
        )
    except ConfigInvalid as exc:
        fix = f"Correct {file}; docs/reference describes every key."
        return Subject(file, raw), [_error_finding(error, fix) for error in exc.errors or [str(exc)]]
    except KraalError as exc:
        return Subject(file, raw), [_error_finding(str(exc), f"Correct {file}.")]
    kind = "distributed" if isinstance(config, DistributedConfig) else "standalone"
    fix = f"Correct or remove the setting in {file}; docs/reference describes every key."
    warnings = [Finding("config.warning", Level.WARNING, warning, fix) for warning in config.warnings]
    return Subject(file, raw, config), [
        passed("config.valid", f"{file} is valid for a {kind} worker"),
        *warnings,
    ]


def _error_finding(what: str, fix: str) -> Finding:
    return Finding("config.valid", Level.ERROR, what, fix)
