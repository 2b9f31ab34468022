"""A standalone worker's config: read from its file, checked as a whole, and turned into Python's own values.

Every error is told at once, each with its key, its value and what is allowed. Keys that nobody knows are no
error, as in Connect, but each gets a warning that names the nearest known one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from kraal.config.clients import client_def, client_names
from kraal.config.listeners import Listener, advertise, parse_listeners
from kraal.config.overrides import OverridePolicy
from kraal.config.properties import read_properties
from kraal.config.values import Resolve, as_strings
from kraal.config.worker_keys import DISTRIBUTED_ONLY, PREFIXES, STANDALONE
from kraal.errors import BadRequest, ConfigInvalid
from kraal.ids import WorkerId

_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_IGNORED = {
    "plugin.path": "Kraal's plugins are Python packages and are found by their entry points",
    "plugin.discovery": "Kraal's plugins are found by their entry points",
    "metric.reporters": "its values are Java classes",
    "rest.extension.classes": "extensions of REST are Java classes",
    **dict.fromkeys(
        (
            "offset.flush.interval.ms",
            "offset.flush.timeout.ms",
        ),
        "offsets are stored after each batch",
    ),
    **dict.fromkeys(
        (
            "access.control.allow.methods",
            "access.control.allow.origin",
            "admin.listeners",
            "config.providers",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "response.http.headers.config",
            "topic.creation.enable",
        ),
        "this version does not do what it asks for yet",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneConfig:
    """What a standalone worker is told. Times are seconds; mappings cannot be changed."""

    bootstrap_servers: str
    key_converter: str
    value_converter: str
    header_converter: str
    converter_configs: Mapping[str, Mapping[str, str]]
    """By `key.converter`, `value.converter`, `header.converter`: what is set for it, prefix removed."""
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    """None: /admin is where the rest is; empty: nowhere."""
    advertised_url: str
    """Ends with `/`; has port 0 until `bound_to` says which port it became."""
    worker_id: WorkerId
    offset_file: Path
    data_dir: Path
    """Where the file-backed log lives; unused when `remember_configs` is off."""
    remember_configs: bool
    poll_interval_s: float
    graceful_timeout_s: float
    offset_flush_interval_s: float
    offset_flush_timeout_s: float
    topic_tracking: bool
    topic_tracking_reset: bool
    topic_creation: bool
    override_policy: OverridePolicy
    cors_origin: str
    cors_methods: str
    response_headers: str
    spark: Mapping[str, str]
    """Spark's settings, with their prefix: `spark.master`."""
    client: Mapping[str, str]
    """Settings of the worker's own clients, such as `security.protocol`, without the bootstrap servers."""
    producer: Mapping[str, str]
    consumer: Mapping[str, str]
    admin: Mapping[str, str]
    """Settings of one kind of client that connectors get, prefix removed."""
    raw: Mapping[str, str]
    """As written."""
    warnings: tuple[str, ...]
    """A sentence each, for the log."""

    def bound_to(self, port: int) -> StandaloneConfig:
        """Return the config with the port that the first listener got, where it asked for any."""
        url = advertise(self.listeners, STANDALONE.parse(self.raw), bound_port=port)
        return replace(self, advertised_url=url, worker_id=_worker_id(url))


def load_worker_properties(path: str | Path, *, resolve: Resolve | None = None) -> StandaloneConfig:
    """Read a standalone worker's properties file.

    Raises BadRequest when the file cannot be read, and ConfigInvalid with every error when it is wrong.
    """
    return parse_standalone(read_properties(path, "worker configuration"), resolve=resolve)


def parse_standalone(raw: Mapping[str, str], *, resolve: Resolve | None = None) -> StandaloneConfig:
    """Check a standalone worker's config; `resolve` finds the converters' classes.

    Raises ConfigInvalid that holds every error.
    """
    checked = STANDALONE.validate(raw, resolve=resolve)
    values = {each.name: each.value for each in checked}
    errors = [error for each in checked for error in each.errors]
    listeners, wrong = parse_listeners("listeners", as_strings(values["listeners"]))
    errors += wrong
    admin: tuple[Listener, ...] | None = None
    if values["admin.listeners"] is not None:
        admin, wrong = parse_listeners("admin.listeners", as_strings(values["admin.listeners"]))
        errors += wrong
    if str(values["rest.advertised.listener"]).lower() == "https":
        errors.append(
            "Invalid value https for configuration rest.advertised.listener: HTTPS listeners are not "
            "supported yet; use http."
        )
    if errors:
        raise ConfigInvalid("The worker's configuration is wrong:\n" + "\n".join(errors), errors)
    return _built(raw, values, listeners, admin)


def _built(
    raw: Mapping[str, str],
    values: Mapping[str, object],
    listeners: tuple[Listener, ...],
    admin_listeners: tuple[Listener, ...] | None,
) -> StandaloneConfig:
    """Put checked values in their places."""

    def text(name: str) -> str:
        return str(values[name] or "")

    def seconds(name: str) -> float:
        return float(text(name) or 0) / 1000

    offset_file = Path(text("offset.storage.file.filename"))
    data_dir = text("kraal.data.dir")
    url = advertise(listeners, values)
    own_client = _own_client_keys()
    return StandaloneConfig(
        bootstrap_servers=",".join(as_strings(values["bootstrap.servers"])),
        key_converter=text("key.converter"),
        value_converter=text("value.converter"),
        header_converter=text("header.converter"),
        converter_configs=MappingProxyType({name: _below(raw, f"{name}.") for name in _CONVERTERS}),
        listeners=listeners,
        admin_listeners=admin_listeners,
        advertised_url=url,
        worker_id=_worker_id(url),
        offset_file=offset_file,
        data_dir=Path(data_dir) if data_dir else offset_file.with_name(f"{offset_file.name}.kraal"),
        remember_configs=values["kraal.standalone.remember.configs"] is True,
        poll_interval_s=seconds("poll.interval.ms"),
        graceful_timeout_s=seconds("task.shutdown.graceful.timeout.ms"),
        offset_flush_interval_s=seconds("offset.flush.interval.ms"),
        offset_flush_timeout_s=seconds("offset.flush.timeout.ms"),
        topic_tracking=values["topic.tracking.enable"] is True,
        topic_tracking_reset=values["topic.tracking.allow.reset"] is True,
        topic_creation=values["topic.creation.enable"] is True,
        override_policy=OverridePolicy.parse(text("connector.client.config.override.policy"))
        or OverridePolicy.NONE,
        cors_origin=text("access.control.allow.origin"),
        cors_methods=text("access.control.allow.methods"),
        response_headers=text("response.http.headers.config"),
        spark=MappingProxyType({name: value for name, value in raw.items() if name.startswith("spark.")}),
        client=MappingProxyType({name: value for name, value in raw.items() if name in own_client}),
        producer=_below(raw, "producer."),
        consumer=_below(raw, "consumer."),
        admin=_below(raw, "admin.", without="admin.listeners"),
        raw=MappingProxyType(dict(raw)),
        warnings=tuple(_warnings(raw)),
    )


def _own_client_keys() -> frozenset[str]:
    """Return the keys that go to the worker's own clients without a prefix."""
    return frozenset(key.name for key in client_def("admin")) - {key.name for key in STANDALONE}


def _worker_id(url: str) -> WorkerId:
    return WorkerId(url.partition("://")[2].removesuffix("/"))


def _below(raw: Mapping[str, str], prefix: str, *, without: str | None = None) -> Mapping[str, str]:
    """Return the part under a prefix, without it."""
    return MappingProxyType(
        {
            name.removeprefix(prefix): value
            for name, value in raw.items()
            if name.startswith(prefix) and (without is None or not name.startswith(without))
        }
    )


def _warnings(raw: Mapping[str, str]) -> list[str]:
    """Say what is passed over, and what nobody knows."""
    known = {key.name for key in STANDALONE} | _own_client_keys()
    found = [f"{name} is ignored: {why}." for name, why in _IGNORED.items() if name in raw]
    for name in raw:
        if name in known or name.startswith(PREFIXES):
            continue
        if name in DISTRIBUTED_ONLY:
            found.append(f"{name} is ignored: only distributed workers use it.")
            continue
        if name in client_names():
            found.append(f"{name} is ignored: it needs a client's prefix, such as consumer.{name}.")
            continue
        near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
        hint = f"; did you mean {near[0]}?" if near else "."
        found.append(f"{name} is ignored: no such configuration is known{hint}")
    return found


__all__ = ["BadRequest", "Listener", "StandaloneConfig", "load_worker_properties", "parse_standalone"]
