"""The config of a standalone worker: reading and validation. Source: StandaloneConfig (Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from kraal.config.properties_file import read_properties
from kraal.config.values import Resolve
from kraal.config.worker.config import (
    ResolveVariables,
    WorkerConfig,
    check_worker,
    trimmed_values,
    worker_fields,
    worker_warnings,
)
from kraal.config.worker.distributed_keys import DISTRIBUTED, TOPIC_PREFIXES
from kraal.config.worker.keys import STANDALONE

OFFSET_FILE: Final = "offset.storage.file.filename"
LEDGER_FILE: Final = "ledger.storage.file.filename"
_DISTRIBUTED_ONLY: Final = dict.fromkeys(
    (*(key.name for key in DISTRIBUTED if key.name not in STANDALONE), *TOPIC_PREFIXES),
    "only distributed workers use it",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig(WorkerConfig):
    """The config of a standalone worker."""

    offset_file: Path
    data_dir: Path
    """The directory of the file-backed log; unused if `remember_configs` is false."""
    remember_configs: bool
    ledger_file: Path | None
    """The file of the ledger; None without a ledger."""


def load_standalone(
    path: str | Path, *, resolve: Resolve | None = None, resolve_variables: ResolveVariables = dict
) -> StandaloneConfig:
    """Read a standalone worker's properties file. `resolve_variables` replaces variables with their values.

    Raises BadRequest if the file cannot be read, and ConfigInvalid with all errors if it is invalid.
    """
    return parse_standalone(resolve_variables(read_properties(path, "worker configuration")), resolve=resolve)


def parse_standalone(raw: Mapping[str, str], *, resolve: Resolve | None = None) -> StandaloneConfig:
    """Validate a standalone worker's config; `resolve` finds the converters' classes.

    Raises ConfigInvalid with all errors.
    """
    raw = trimmed_values(raw)
    properties = check_worker(STANDALONE, raw, resolve=resolve)
    properties.raise_errors()
    offset_file = Path(properties.text(OFFSET_FILE))
    data_dir = properties.text("kraal.data.dir")
    return StandaloneConfig(
        **worker_fields(properties, worker_warnings(raw, STANDALONE, _DISTRIBUTED_ONLY)),
        offset_file=offset_file,
        data_dir=Path(data_dir) if data_dir else offset_file.with_name(f"{offset_file.name}.kraal"),
        ledger_file=Path(ledger_file) if (ledger_file := properties.text(LEDGER_FILE)) else None,
        remember_configs=properties.values["kraal.standalone.remember.configs"] is True,
    )
