"""Tables of pipes with one row per line: configs of their sinks, and rows as pyiceberg and deltalake read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from kraal.broker.records import BrokerRecord

COMMIT_INTERVAL_MS: Final = 2_000
MAINTENANCE_INTERVAL_MS: Final = 30_000
_COLUMN: Final = "line"
_NAME: Final = "chaos.lines"
_COMMON: Final = {
    "transforms": "hoist",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": _COLUMN,
    "commit.interval.ms": str(COMMIT_INTERVAL_MS),
    "maintenance.interval.ms": str(MAINTENANCE_INTERVAL_MS),
}
_ICEBERG_PROPERTIES: Final = {
    "table.properties.history.expire.max-snapshot-age-ms": "60000",
    "table.properties.write.metadata.previous-versions-max": "10",
}
"""With the defaults, the metadata files of an hour of small commits would fill the disk."""
_MAX_LISTED: Final = 3
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class LineTable:
    """A table in a directory of its own. Thread-safe."""

    directory: Path
    is_iceberg: bool
    """Whether the format is Iceberg, with a catalog in SQLite, instead of Delta."""

    @property
    def config(self) -> dict[str, str]:
        """The config of the sink, without its topic."""
        if not self.is_iceberg:
            return _COMMON | {"connector.class": "DeltaSink", "table": str(self._location)}
        catalog = {f"iceberg.catalog.{name}": value for name, value in self._catalog.items()}
        return _COMMON | _ICEBERG_PROPERTIES | catalog | {"connector.class": "IcebergSink", "table": _NAME}

    def get_progress(self) -> int:
        """Return a number that changes with each commit; 0 if there is none."""
        try:
            if self.is_iceberg:
                return self._database.stat().st_mtime_ns
            return sum(path.suffix == ".json" for path in (self._location / "_delta_log").iterdir())
        except FileNotFoundError:
            return 0

    def read_lines(self) -> Sequence[bytes]:
        """Return the sorted lines of the latest version; empty if the table does not exist."""
        progress = self.get_progress()
        return _read_version(self, progress) if progress else ()

    def read_latest(self) -> Sequence[bytes]:
        """Like `read_lines`, but without a cache; the directory of the table must exist."""
        for _ in range(_ATTEMPTS - 1):
            with suppress(
                FileNotFoundError
            ):  # maintenance has deleted the files of the version that was read
                return self._read_once()
        return self._read_once()

    def _read_once(self) -> Sequence[bytes]:
        from deltalake import DeltaTable  # noqa: PLC0415 - an extra, as pyiceberg
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415
        from sqlalchemy.exc import OperationalError  # noqa: PLC0415

        if not self.is_iceberg:
            rows = DeltaTable(str(self._location)).to_pyarrow_table()
        else:
            try:
                catalog = load_catalog("iceberg", **self._catalog, init_catalog_tables="false")
                rows = catalog.load_table(_NAME).scan().to_arrow()
            except NoSuchTableError:
                return ()
            except OperationalError as exc:
                if "no such table" in str(exc):  # the catalog is being created
                    return ()
                raise
        return sorted(str(line).encode() for line in rows[_COLUMN].to_pylist())

    @property
    def _location(self) -> Path:
        return self.directory / "table"

    @property
    def _database(self) -> Path:
        return self.directory / "catalog.db"

    @property
    def _catalog(self) -> dict[str, str]:
        return {"type": "sql", "uri": f"sqlite:///{self._database}", "warehouse": self._location.as_uri()}


@lru_cache(maxsize=4)
def _read_version(table: LineTable, progress: int) -> Sequence[bytes]:
    """Return the result of `read_latest`, which is cached until the progress of the table changes."""
    del progress
    return table.read_latest()


def find_violations(pipe: str, records: Iterable[BrokerRecord], lines: Iterable[bytes]) -> list[str]:
    """Return a message if a table does not have exactly one row for each record of its topic. Pure."""
    expected, stored = Counter(record.value or b"" for record in records), Counter(lines)
    differences = (
        (expected - stored, "are missing in"),
        (stored - expected, "are repeated or unexpected in"),
    )
    return [
        f"{lines.total()} rows {verb} the table of {pipe}, such as {sorted(lines)[:_MAX_LISTED]}"
        for lines, verb in differences
        if lines
    ]
