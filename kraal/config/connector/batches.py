"""Settings for a connector's batches: poll interval, linger, maximum number of records, Spark session settings.

These keys are specific to Kraal; all connectors have them. A connector's value takes precedence over its worker's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kraal.config.checks import Rule, at_least, between, rule, unless_null
from kraal.config.key import ConfigDef, ConfigType, Importance, Key, Width
from kraal.config.key_families import Family
from kraal.config.values import invalid, parse_value

POLL_INTERVAL: Final = "poll.interval.ms"
LINGER: Final = "batch.linger.ms"
MAX_RECORDS: Final = "max.records.per.batch"
DEFAULT_POLL_MS: Final = 25
DEFAULT_LINGER_MS: Final = 35
TRANSACTION_LINGER_MS: Final = 400
"""Default linger of sources with exactly-once delivery; larger, because a transaction takes several requests."""
DEFAULT_MAX_RECORDS: Final = 1_000_000
SPARK_SQL: Final = "spark.sql."

_MAX_RECORDS: Final = 10_000_000
_MAX_LINGER_MS: Final = 60_000
_GROUP: Final = "Batches"
_SAFE_PREFIXES: Final = ("spark.sql.avro.", "spark.sql.files.", "spark.sql.orc.", "spark.sql.parquet.")
"""Prefixes of the Spark session settings that a connector may override; these affect only reading and writing files."""
_POLL_DOC: Final = "Interval at which an idle task polls for new data, in milliseconds."
_LINGER_DOC: Final = (
    "Maximum time that a source waits between a small batch and its next poll, in milliseconds. The more small batches "
    "the worker writes per second, the longer its tasks wait, so that batches become larger and cheaper. "
    "0: poll immediately. "
    f"If this setting is absent, sources with exactly-once delivery wait up to {TRANSACTION_LINGER_MS} ms, because "
    "each small batch is a transaction unless the connector has transaction.boundary=interval."
)
_MAX_RECORDS_DOC: Final = (
    "Maximum number of records in a batch. After a failure, at most one batch is repeated; a rebalance or a stop waits "
    "for at most one batch. Applies to sinks, to MirrorSource with batches, and to plugins that read this setting from "
    "their context. File sources limit batches by bytes, and the result of a table query is one batch."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The settings for a task's batches."""

    poll_s: float | None = None
    """The connector's poll interval for idle tasks, in seconds; None if the connector does not set it."""
    linger_s: float = DEFAULT_LINGER_MS / 1000
    """Maximum time from a small batch to the next poll, in seconds."""
    max_records: int = DEFAULT_MAX_RECORDS


@rule(", ".join(f"`{prefix}*`" for prefix in _SAFE_PREFIXES) + ", except settings that name classes")
def _check_spark_setting(name: str, value: object) -> str | None:
    """Require a setting that affects only this connector and loads no code."""
    if name.startswith(_SAFE_PREFIXES) and not name.lower().endswith("class"):
        return None
    allowed_settings = ", ".join(f"{prefix}*" for prefix in _SAFE_PREFIXES)
    return invalid(
        name,
        value,
        f"A connector may set {allowed_settings}, but not classes; set other Spark settings in the worker's config",
    )


_CHECKS: Final[Mapping[str, Rule]] = {
    POLL_INTERVAL: at_least(1),
    LINGER: between(0, _MAX_LINGER_MS),
    MAX_RECORDS: between(1, _MAX_RECORDS),
}

_POLL_KEY: Final = Key(
    name=POLL_INTERVAL, type=ConfigType.LONG, default=None, validator=unless_null(_CHECKS[POLL_INTERVAL]),
    importance=Importance.LOW, doc=f"{_POLL_DOC} A sink with this setting polls at this interval instead of "
        "waiting for records in its consumer. Default: the plugin's value, or else the worker's.",
    group=_GROUP, order=0, width=Width.SHORT, display_name="Poll Interval", source="Kraal",
)  # fmt: skip
_LINGER_KEY: Final = Key(
    name=LINGER, type=ConfigType.LONG, default=None, validator=unless_null(_CHECKS[LINGER]),
    importance=Importance.LOW, doc=f"{_LINGER_DOC} Default: the worker's value.",
    group=_GROUP, order=1, width=Width.SHORT, display_name="Batch Linger", source="Kraal",
)  # fmt: skip
_MAX_RECORDS_KEY: Final = Key(
    name=MAX_RECORDS, type=ConfigType.INT, default=None, validator=unless_null(_CHECKS[MAX_RECORDS]),
    importance=Importance.LOW, doc=f"{_MAX_RECORDS_DOC} Default: the worker's value.",
    group=_GROUP, order=2, width=Width.SHORT, display_name="Maximum Batch Size", source="Kraal",
)  # fmt: skip
BATCHES: Final = ConfigDef([_POLL_KEY, _LINGER_KEY, _MAX_RECORDS_KEY])
"""Keys of connectors. Connect does not have these keys, so responses contain only the keys that are in the config."""

SQL_FAMILY: Final = Family(
    prefix=SPARK_SQL,
    doc="Settings of Spark's session for this connector only; they override the worker's. Allowed settings: "
    + ", ".join(f"`{prefix}*`" for prefix in _SAFE_PREFIXES)
    + ", except those that name classes.",
)

WORKER_BATCHES: Final = (
    Key(
        name=POLL_INTERVAL, type=ConfigType.LONG, default=DEFAULT_POLL_MS, validator=_CHECKS[POLL_INTERVAL],
        importance=Importance.LOW, doc=f"{_POLL_DOC} The worker lengthens it if idle tasks would poll more than "
        "1,000 times per second. Connectors can override it.", source="Kraal",
    ),
    Key(
        name=LINGER, type=ConfigType.LONG, default=DEFAULT_LINGER_MS, validator=_CHECKS[LINGER],
        importance=Importance.LOW, doc=f"{_LINGER_DOC} Connectors can override it.", source="Kraal",
    ),
    Key(
        name=MAX_RECORDS, type=ConfigType.INT, default=DEFAULT_MAX_RECORDS, validator=_CHECKS[MAX_RECORDS],
        importance=Importance.LOW, doc=f"{_MAX_RECORDS_DOC} Connectors can override it.", source="Kraal",
    ),
)  # fmt: skip
"""Keys of workers."""


def batch_keys(config: Mapping[str, str | None], plugin: ConfigDef) -> list[Key]:
    """Return the batch keys in a connector's config, except those that its plugin declares."""
    present_keys = [key for key in BATCHES if key.name in config]
    sql_keys = [
        Key(
            name=name, type=ConfigType.STRING, default=None, validator=_check_spark_setting, importance=Importance.LOW,
            doc=SQL_FAMILY.doc, group=_GROUP, order=3 + index, width=Width.MEDIUM, display_name=name, source="Kraal",
        )
        for index, name in enumerate(sorted(name for name in config if name.startswith(SPARK_SQL)))
    ]  # fmt: skip
    return [key for key in (*present_keys, *sql_keys) if key.name not in plugin]


def parse_batches(
    config: Mapping[str, str], worker: Mapping[str, str], *, transactional: bool = False
) -> Batches:
    """Return the effective settings of a connector's tasks. Never raises; invalid values are ignored.

    `transactional` must be true for a source with exactly-once delivery.
    """
    poll_ms = _parse_number(config, _POLL_KEY)
    max_records = _parse_number(config, _MAX_RECORDS_KEY) or _parse_number(worker, _MAX_RECORDS_KEY)
    linger_ms = _parse_number(config, _LINGER_KEY)
    if linger_ms is None:
        linger_ms = _parse_number(worker, _LINGER_KEY)
    if linger_ms is None:
        linger_ms = TRANSACTION_LINGER_MS if transactional else DEFAULT_LINGER_MS
    return Batches(
        poll_s=None if poll_ms is None else poll_ms / 1000,
        linger_s=linger_ms / 1000,
        max_records=max_records or DEFAULT_MAX_RECORDS,
    )


def sql_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the allowed settings of the Spark session in a connector's config."""
    return {
        name: value
        for name, value in config.items()
        if name.startswith(SPARK_SQL) and _check_spark_setting(name, value) is None
    }


def _parse_number(config: Mapping[str, str], key: Key) -> int | None:
    try:
        value = parse_value(key.name, config.get(key.name), key.type)
    except ValueError:
        return None
    return value if isinstance(value, int) and _CHECKS[key.name](key.name, value) is None else None
