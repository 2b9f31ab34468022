"""A standalone worker's config: read from its file and checked. Source: StandaloneConfig (Kafka 4.3.0)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from kraal.config.distributed_keys import DISTRIBUTED, TOPIC_PREFIXES
from kraal.config.properties import read_properties
from kraal.config.values import Resolve
from kraal.config.worker import (
    WithoutVariables,
    WorkerConfig,
    check_worker,
    worker_fields,
    worker_warnings,
)
from kraal.config.worker_keys import STANDALONE

_ELSEWHERE: Final = dict.fromkeys(
    (*(key.name for key in DISTRIBUTED if key.name not in STANDALONE), *TOPIC_PREFIXES),
    "only distributed workers use it",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig(WorkerConfig):
    """What a standalone worker is told."""

    offset_file: Path
    data_dir: Path
    """Where the file-backed log lives; unused when `remember_configs` is off."""
    remember_configs: bool


def load_worker_properties(
    path: str | Path, *, resolve: Resolve | None = None, resolved: WithoutVariables = dict
) -> StandaloneConfig:
    """Read a standalone worker's properties file; `resolved` puts values in the places of variables.

    Raises BadRequest when the file cannot be read, and ConfigInvalid with every error when it is wrong.
    """
    return parse_standalone(resolved(read_properties(path, "worker configuration")), resolve=resolve)


def parse_standalone(raw: Mapping[str, str], *, resolve: Resolve | None = None) -> StandaloneConfig:
    """Check a standalone worker's config; `resolve` finds the converters' classes.

    Raises ConfigInvalid that holds every error.
    """
    checked = check_worker(STANDALONE, raw, resolve=resolve)
    checked.refuse_errors()
    offset_file = Path(checked.text("offset.storage.file.filename"))
    data_dir = checked.text("kraal.data.dir")
    return StandaloneConfig(
        **worker_fields(checked, worker_warnings(raw, STANDALONE, _ELSEWHERE)),
        offset_file=offset_file,
        data_dir=Path(data_dir) if data_dir else offset_file.with_name(f"{offset_file.name}.kraal"),
        remember_configs=checked.values["kraal.standalone.remember.configs"] is True,
    )
