"""The keys of all workers, and the additional keys of standalone workers.

Source: WorkerConfig, RestServerConfig, StandaloneConfig (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kraal.config.checks import (
    Check,
    at_least,
    between,
    distinct_entries,
    non_empty,
    one_of,
    one_of_ignoring_case,
    rule,
    unless_null,
)
from kraal.config.clients.overrides import OverridePolicy
from kraal.config.clients.restrictions import ALLOWED_URLS
from kraal.config.connector.auto_restart import WORKER_SUPERVISION
from kraal.config.connector.batches import WORKER_BATCHES
from kraal.config.connector.java_plugins import (
    DEFAULT_DISCOVERY,
    DEFAULT_OPTIONS,
    DISCOVERY,
    JVM,
    JVM_DOC,
    OPTIONS,
    PATH,
    PluginsJvm,
)
from kraal.config.java_regex import compile_pattern
from kraal.config.key import REQUIRED, ConfigDef, ConfigType, Importance, Key
from kraal.config.key_families import Family
from kraal.config.patterns import Pattern
from kraal.config.spark_master import SHARED_PATHS, WARMUP
from kraal.config.values import invalid, trim
from kraal.config.worker.response_headers import check_header_rules

_BOOLEAN, _CLASS, _INT, _LIST = ConfigType.BOOLEAN, ConfigType.CLASS, ConfigType.INT, ConfigType.LIST
_LONG, _PASSWORD, _STRING = ConfigType.LONG, ConfigType.PASSWORD, ConfigType.STRING
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

CONTROL_PORT: Final = "kraal.test.control.port"
UI: Final = "ui.enabled"
UI_READ_ONLY: Final = "ui.read.only"
WAITING_MAX: Final = "rest.waiting.requests.max"
BODIES_MAX: Final = "rest.bodies.max.bytes"
HISTORY_MAX: Final = "rest.history.max.bytes"
PLUGINS_LOCK: Final = "kraal.plugins.lock"
POLICY: Final = "connector.client.config.override.policy"
ALLOWLIST: Final = "connector.client.config.override.allowlist"
SIMPLE_HEADERS: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


_CONVERTER_VERSIONS: Final = tuple(f"{role}.converter.plugin.version" for role in ("key", "value", "header"))


def worker_key(
    name: str,
    kind: ConfigType,
    importance: Importance,
    doc: str,
    *,
    default: object = None,
    check: Check | None = None,
    source: str = "WorkerConfig",
    no_effect: str = "",
) -> Key:
    """Declare a key of a worker."""
    return Key(
        name=name, type=kind, importance=importance, doc=doc, default=default, validator=check, source=source,
        no_effect=no_effect,
    )  # fmt: skip


@rule(", ".join(f"`{policy}`" for policy in OverridePolicy) + ", or a class in `plugin.path`")
def _check_policy(name: str, value: object) -> str | None:
    return None if isinstance(value, str) and value else _policy_error(name, value)


def _policy_error(name: str, value: object) -> str:
    return invalid(
        name,
        value,
        f"String must be one of: {', '.join(OverridePolicy)}; or the class of a policy in plugin.path",
    )


def policy_errors(raw: Mapping[str, str]) -> list[str]:
    """Return an error if the policy is not built in and `plugin.path` is not set."""
    text = raw.get(POLICY, "")
    is_unknown = text and OverridePolicy.parse(text) is None and not trim(raw.get("plugin.path", ""))
    return [_policy_error(POLICY, text)] if is_unknown else []


@rule("a list of at least one entry, without empty or duplicate entries")
def _check_non_empty_list(name: str, value: object) -> str | None:
    return distinct_entries(name, value) or (
        f"Configuration '{name}' must not be empty." if value == () else None
    )


@rule("`*`, or regular expressions")
def _check_origins(name: str, value: object) -> str | None:
    try:
        allowed_origins(str(value or ""))
    except ValueError as exc:
        return invalid(name, value, f"each origin must be * or a regular expression: {exc}")
    return None


def allowed_origins(text: str) -> tuple[Pattern, ...]:
    """Parse `access.control.allow.origin` into patterns. Raises ValueError.

    Source: RestServer, CrossOriginHandler (Jetty 12).
    """
    origins = [origin for entry in text.split(",") if (origin := trim(entry))]
    return tuple(compile_pattern(".*" if origin == "*" else origin, ignore_case=True) for origin in origins)


_STORED_PER_BATCH: Final = "offsets are stored after each batch"

_WORK = [
    worker_key("bootstrap.servers", _LIST, _HIGH, "Addresses HOST:PORT of Kafka brokers for the initial connection.",
         default=REQUIRED, check=unless_null(_check_non_empty_list)),
    worker_key("client.dns.lookup", _STRING, _MEDIUM, "How clients resolve a broker's host name.",
         default="use_all_dns_ips", check=one_of("use_all_dns_ips",
         "resolve_canonical_bootstrap_servers_only")),
    worker_key("key.converter", _CLASS, _HIGH,
         "Class that converts each record's key to bytes in Kafka and back.",
         default=REQUIRED),
    worker_key("value.converter", _CLASS, _HIGH,
         "Class that converts each record's value to bytes in Kafka and back.",
         default=REQUIRED),
    worker_key("header.converter", _CLASS, _LOW, "Class that converts each header's value to bytes and back.",
         default=SIMPLE_HEADERS),
    worker_key("task.shutdown.graceful.timeout.ms", _LONG, _LOW,
         "Maximum total time for the tasks of a connector to stop, in milliseconds.",
         default=5_000, check=at_least(0)),
    worker_key("offset.flush.interval.ms", _LONG, _LOW, "Interval at which offsets are written, in milliseconds.",
         default=60_000, check=at_least(0), no_effect=_STORED_PER_BATCH),
    worker_key("offset.flush.timeout.ms", _LONG, _LOW,
         "Maximum time to write offsets, in milliseconds.",
         default=5_000, check=at_least(0), no_effect=_STORED_PER_BATCH),
    worker_key(PATH, _LIST, _LOW,
         "Jars of Java plugins, or plugin directories, separated by commas. In a plugin directory, each jar, and each "
         "subdirectory with jars at any depth, is one plugin with its own class loader. Workers run these plugins in a "
         "separate JVM.", check=unless_null(distinct_entries)),
    worker_key(DISCOVERY, _STRING, _LOW, "How the plugins in `plugin.path` are found.", default=DEFAULT_DISCOVERY,
         check=one_of_ignoring_case("ONLY_SCAN", "SERVICE_LOAD", "HYBRID_WARN", "HYBRID_FAIL")),
    worker_key(OPTIONS, _STRING, _LOW,
         "Options of each JVM that runs plugins in `plugin.path`. With the default options, the JVM uses the parallel "
         "garbage collector. With other options, the JVM uses G1, as in Connect's script, unless the options select a "
         "collector. Every user of the machine can read the options.",
         default=DEFAULT_OPTIONS, source="Kraal"),
    worker_key(JVM, _STRING, _LOW, f"{JVM_DOC} Connectors can override it.",
         default=PluginsJvm.SHARED.value, check=one_of(*PluginsJvm), source="Kraal"),
    *(worker_key(name, _STRING, _LOW, "Required version of this converter, for Java connectors (KIP-891).")
      for name in _CONVERTER_VERSIONS),
    worker_key("config.providers", _LIST, _LOW, "Names of the config providers that resolve variables in configs.",
         default=(), check=distinct_entries),
    worker_key(POLICY, _STRING, _MEDIUM,
         "Which settings of its Kafka clients a connector can override: All, None, Principal, those of an "
         "Allowlist, or those that a class in `plugin.path` allows.",
         default="All", check=_check_policy),
    worker_key(ALLOWLIST, _LIST, _MEDIUM,
         f"Names of the client settings that a connector can override if `{POLICY}` is Allowlist.",
         default=(), check=distinct_entries, source="KIP-1188"),
    worker_key("topic.tracking.enable", _BOOLEAN, _LOW,
         "Whether to record which topics each connector uses.", default=True),
    worker_key("topic.tracking.allow.reset", _BOOLEAN, _LOW,
         "Whether users can reset the recorded topics of a connector.",
         default=True),
    worker_key("topic.creation.enable", _BOOLEAN, _LOW,
         "Whether source connectors can create topics with their topic.creation.* settings.",
         default=True),
    worker_key("metrics.sample.window.ms", _LONG, _LOW, "Duration of one sample of a metric, in milliseconds.",
         default=30_000, check=at_least(0)),
    worker_key("metrics.num.samples", _INT, _LOW, "Number of samples of each metric.", default=2, check=at_least(1)),
    worker_key("metrics.recording.level", _STRING, _LOW, "Recording level of metrics.", default="INFO",
         check=one_of("INFO", "DEBUG"), no_effect="all metrics have the level INFO"),
    worker_key("metric.reporters", _LIST, _LOW, "Java classes that receive the worker's metrics.",
         default=("org.apache.kafka.common.metrics.JmxReporter",), check=distinct_entries,
         no_effect="reporters are Java classes; use GET /metrics, or JMX for the metrics of Java plugins"),
]  # fmt: skip

_REST = [
    worker_key("listeners", _LIST, _LOW,
         "Addresses to listen on, http://HOST:PORT or https://HOST:PORT, separated by commas.",
         default=("http://:8083",), check=_check_non_empty_list, source="RestServerConfig"),
    worker_key("rest.advertised.host.name", _STRING, _LOW,
         "Host that clients and other workers use to reach this worker.",
         source="RestServerConfig"),
    worker_key("rest.advertised.port", _INT, _LOW, "Port that clients and other workers use to reach this worker.",
         check=unless_null(at_least(0)), source="RestServerConfig"),
    worker_key("rest.advertised.listener", _STRING, _LOW,
         "URL scheme that clients and other workers use to reach this worker.",
         check=unless_null(one_of_ignoring_case("http", "https")), source="RestServerConfig"),
    worker_key("admin.listeners", _LIST, _LOW,
         "Addresses that serve only /admin. Empty: /admin is not served; default: it is served on all "
         "listeners.",
         check=unless_null(distinct_entries), source="RestServerConfig"),
    worker_key("rest.extension.classes", _LIST, _LOW,
         "REST extensions: none, or Connect's BasicAuthSecurityRestExtension, which requires a user and "
         "a password.",
         default=(), check=distinct_entries, source="RestServerConfig"),
    worker_key("access.control.allow.origin", _STRING, _LOW,
         "Origins whose pages can use the REST API (CORS): *, or regular expressions separated by "
         "commas.",
         default="", check=_check_origins, source="RestServerConfig"),
    worker_key("access.control.allow.methods", _STRING, _LOW,
         "HTTP methods that pages of the allowed origins can use, separated by commas; empty: GET, POST and HEAD.",
         default="",
         source="RestServerConfig"),
    worker_key("response.http.headers.config", _STRING, _LOW,
         "Rules for headers of every response, separated by commas: set, add, setDate or addDate, "
         "followed by NAME:VALUE.",
         default="", check=check_header_rules, source="RestServerConfig"),
    worker_key("ssl.client.auth", _STRING, _LOW, "Whether HTTPS clients need a certificate.", default="none",
         check=one_of("required", "requested", "none"), source="RestServerConfig"),
]  # fmt: skip

_KRAAL = [
    *WORKER_BATCHES,
    worker_key("metrics.endpoint.enabled", _BOOLEAN, _LOW,
         "Whether to serve GET /metrics for Prometheus on all REST listeners.",
         default=True, source="Kraal"),
    worker_key("tracing.enabled", _BOOLEAN, _LOW,
         "Whether to send a trace of each batch to OpenTelemetry, configured by the environment variables OTEL_…. "
         "Requires the packages of kraal[otel].",
         default=False, source="Kraal"),
    worker_key(UI, _BOOLEAN, _LOW,
         "Whether to serve the dashboard at /ui: on admin.listeners if that key is set, otherwise on listeners.",
         default=True, source="Kraal"),
    worker_key(UI_READ_ONLY, _BOOLEAN, _LOW,
         "Whether the dashboard hides and refuses all actions. It does not restrict the REST API.",
         default=False, source="Kraal"),
    worker_key("rest.dead.letters.enabled", _BOOLEAN, _LOW,
         "Whether to serve GET /connectors/NAME/dead-letters, which shows records, and POST "
         "/connectors/NAME/dead-letters/replay, which writes them.",
         default=True, source="Kraal"),
    worker_key(WAITING_MAX, _INT, _LOW,
         "Maximum number of REST requests that wait for one component of the worker; further requests are "
         "rejected with 503 and Retry-After. Health, metrics and responses from memory never wait.",
         default=1_000, check=between(1, 100_000), source="Kraal"),
    worker_key(BODIES_MAX, _LONG, _LOW,
         "Maximum total size of the bodies of pending requests, in bytes; further requests are rejected "
         "with 503 and Retry-After. Requests between workers have a separate limit of the same size.",
         default=64 * 1024 * 1024, check=between(1_000_000, 1 << 40), source="Kraal"),
    worker_key(HISTORY_MAX, _LONG, _LOW,
         "Maximum memory in bytes for the history that REST shows: states with their causes, earlier configs, log "
         "lines by connector, and events. The oldest entries are dropped first; 0: no history.",
         default=48 * 1024 * 1024, check=between(0, 1 << 34), source="Kraal"),
    worker_key("java.security.auth.login.config", _STRING, _LOW,
         "JAAS file for basic authentication. Default: the file that KAFKA_OPTS names, as for a JVM.",
         check=non_empty, source="Kraal"),
    worker_key(ALLOWED_URLS, _LIST, _LOW,
         "URLs that connectors can use in sasl.oauthbearer.token.endpoint.url and "
         "sasl.oauthbearer.jwks.endpoint.url, in addition to those in the worker's own settings. "
         "Default: the URLs that KAFKA_OPTS names, as for a JVM.",
         source="Kraal"),
    worker_key(PLUGINS_LOCK, _STRING, _LOW,
         "Plugin lock that `kraal plugins add` creates: a file NAME.lock next to a directory NAME, which contains "
         "wheels to import, jars for Spark, and Java plugins. A file whose sha256 differs from the lock aborts "
         "startup. Variables are not resolved in this setting. Default: only packages in Kraal's own "
         "environment.",
         check=non_empty, source="Kraal"),
    worker_key(SHARED_PATHS, _LIST, _LOW,
         "With a Spark cluster: directories that the worker and all executors see under the same paths, such as a "
         "mounted network file system. Connectors whose executors read or write files must use paths in these "
         "directories.",
         source="Kraal"),
    worker_key(WARMUP, _BOOLEAN, _LOW,
         "Whether Spark starts with the worker and runs small batches before the worker is reported as up. If false, "
         "Spark starts with the first batch that requires it, and this batch waits for the start; a worker whose tasks "
         "have only small batches then needs no memory for Spark.",
         default=True, source="Kraal"),
    worker_key(CONTROL_PORT, _INT, _LOW,
         "For tests only: port on 127.0.0.1 through which chaos scripts kill actors of the worker; 0: "
         "any free port. Default: no port.",
         check=unless_null(between(0, 65_535)), source="Kraal"),
    *WORKER_SUPERVISION,
]  # fmt: skip

_STANDALONE = [
    worker_key("offset.storage.file.filename", _STRING, _HIGH,
         "File that stores source offsets, in Connect's format.",
         default=REQUIRED, check=non_empty, source="StandaloneConfig"),
    worker_key("kraal.data.dir", _STRING, _LOW,
         "Directory that stores configs and statuses. Default: the path of the offset file with the "
         "suffix .kraal.",
         check=non_empty, source="Kraal"),
    worker_key("ledger.storage.file.filename", _STRING, _LOW,
         "File that stores how many records each task has delivered (docs/proof.md). Default: no ledger.",
         check=non_empty, source="Kraal"),
    worker_key("kraal.standalone.remember.configs", _BOOLEAN, _LOW,
         "Whether configs, target states and statuses survive restarts. With false they are discarded, "
         "as in Kafka Connect.",
         default=True, source="Kraal"),
]  # fmt: skip

REST: Final = ConfigDef(_REST)
WORKER: Final = ConfigDef([*_WORK, *_REST, *_KRAAL])
"""The keys of all workers."""
STANDALONE: Final = WORKER.merge(_STANDALONE)

CLIENT_FAMILIES: Final = (
    Family(prefix="producer.", doc="Settings of the producers of source connectors."),
    Family(prefix="consumer.", doc="Settings of the consumers of sink connectors."),
    Family(prefix="admin.", doc="Settings of the admin clients of connectors."),
)

WORKER_FAMILIES: Final = (
    Family(
        prefix="config.providers.", rest="NAME.class",
        doc="Class of the config provider NAME, which config.providers lists.",
    ),
    Family(
        prefix="config.providers.", rest="NAME.param.KEY",
        doc="A parameter of the config provider NAME.",
    ),
    Family(
        prefix="spark.",
        doc="Settings of the worker's Spark session, as in Spark's documentation, such as spark.master.",
    ),
    Family(prefix="key.converter.", doc="Settings of the worker's key converter."),
    Family(prefix="value.converter.", doc="Settings of the worker's value converter."),
    Family(prefix="header.converter.", doc="Settings of the worker's header converter."),
    *CLIENT_FAMILIES,
    Family(
        prefix="listeners.https.",
        doc="Settings ssl.* of HTTPS listeners. If any setting has this prefix, settings ssl.* without the prefix do "
        "not apply to HTTPS listeners.",
    ),
    Family(
        prefix="admin.listeners.https.",
        doc="Settings ssl.* of HTTPS listeners in admin.listeners. If any setting has this prefix, settings ssl.* "
        "without the prefix do not apply to these listeners.",
    ),
    Family(
        prefix="metrics.context.", doc="Labels for Java's metrics reporters.",
        no_effect="there are no metrics reporters",
    ),
)  # fmt: skip
"""Families of keys that are passed to the component that their prefix names."""

PREFIXES: Final = tuple(dict.fromkeys(family.prefix for family in WORKER_FAMILIES))
"""Prefixes of keys that are not validated here."""
