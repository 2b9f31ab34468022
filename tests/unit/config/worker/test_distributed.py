from __future__ import annotations

from pathlib import Path

import pytest

from kraal.config.worker.distributed import (
    DistributedConfig,
    ExactlyOnce,
    InternalTopic,
    MissingPlugins,
    load_distributed,
    parse_distributed,
)
from kraal.config.worker.distributed_keys import DISTRIBUTED
from kraal.config.worker.keys import STANDALONE
from kraal.config.worker.standalone import parse_standalone
from kraal.core.errors import ConfigInvalid
from kraal.protocol.group import ConnectProtocol
from tests.fakes.workers.worker_config import MINIMAL_CONFIG, STRING_CONVERTER


def parse(**extra: str) -> DistributedConfig:
    return parse_distributed(
        {**MINIMAL_CONFIG, **{name.replace("__", "."): value for name, value in extra.items()}}
    )


def find_errors(raw: dict[str, str]) -> tuple[str, ...]:
    with pytest.raises(ConfigInvalid) as raised:
        parse_distributed(raw)
    return raised.value.errors


def find_error(name: str, value: str) -> str:
    (error,) = find_errors({**MINIMAL_CONFIG, name: value})
    return error


def test_defaults_match_connect() -> None:
    config = parse()
    assert (config.group_id, config.client_id, config.worker_id) == ("cluster", "", "127.0.0.1:8083")
    assert config.config_topic == InternalTopic(
        key="config.storage.topic", name="configs", partitions=1, replication_factor=3, settings={}
    )
    assert (config.offset_topic.partitions, config.status_topic.partitions) == (25, 5)
    assert (config.session_timeout_s, config.heartbeat_interval_s, config.rebalance_timeout_s) == (10, 3, 60)
    assert (config.worker_sync_timeout_s, config.worker_unsync_backoff_s) == (3, 300)
    assert config.protocol is ConnectProtocol.STATIC
    assert config.scheduled_rebalance_max_delay_ms == 300_000
    assert (config.session_key_algorithm, config.session_key_size, config.session_key_ttl_ms) == (
        "HmacSHA256",
        32,
        3_600_000,
    )
    assert (config.signature_algorithm, config.verification_algorithms) == ("HmacSHA256", ("HmacSHA256",))
    assert config.exactly_once is ExactlyOnce.DISABLED
    assert config.missing_plugins is MissingPlugins.REFUSE
    assert config.creates_topics
    assert not parse(internal__topics__automatic__creation__enable="false").creates_topics
    assert config.data_dir is None
    assert config.warnings == ()


def test_distributed_config_contains_common_worker_settings() -> None:
    raw = {**MINIMAL_CONFIG, "spark.master": "local[2]", "producer.acks": "1"}
    config = parse_distributed(raw)
    assert config.bootstrap_servers == "a:1,b:2"
    assert config.key_converter == STRING_CONVERTER
    assert config.spark == {"spark.master": "local[2]"}
    assert config.raw["producer.acks"] == "1"
    assert parse(listeners="http://127.0.0.1:0").with_ports(4711).worker_id == "127.0.0.1:4711"


@pytest.mark.parametrize("text", ["eager", "Compatible", "SESSIONED", "Static"])
def test_protocol_is_case_insensitive(text: str) -> None:
    assert parse(connect__protocol=text).protocol == text.lower()


def test_client_ids_match_connect() -> None:
    config = parse()
    assert (config.client_id_base, config.member_client_id) == ("cluster-", "connect-127.0.0.1:8083")
    config = parse(client__id="me")
    assert (config.client_id_base, config.member_client_id) == ("cluster-me-", "me")


def test_preparing_enables_transactional_leader() -> None:
    assert parse().transactional_id is None
    config = parse(exactly__once__source__support="Preparing")
    assert config.exactly_once.transactional_leader
    assert config.transactional_id == "connect-cluster-cluster"
    assert not config.exactly_once_sources


def test_enabled_exactly_once_makes_sources_transactional() -> None:
    config = parse(exactly__once__source__support="Enabled")
    assert config.exactly_once_sources
    assert config.transactional_id == "connect-cluster-cluster"


def test_worker_has_a_ledger_if_its_topic_is_set() -> None:
    assert parse_distributed(MINIMAL_CONFIG).ledger_topic is None
    settings = {"ledger.storage.topic": "totals", "ledger.storage.min.insync.replicas": "2"}
    topic = parse_distributed({**MINIMAL_CONFIG, **settings}).ledger_topic
    assert topic is not None
    assert (topic.name, topic.partitions, topic.replication_factor) == ("totals", 1, 3)
    assert topic.settings == {"min.insync.replicas": "2"}


def test_settings_of_internal_topics_are_passed_through() -> None:
    config = parse_distributed(
        {
            **MINIMAL_CONFIG,
            "config.storage.replication.factor": "1",
            "config.storage.min.insync.replicas": "2",
            "config.storage.partitions": "5",
            "offset.storage.partitions": "-1",
            "offset.storage.cleanup.policy": "delete",
            "offset.storage.segment.bytes": "1000",
            "offset.storage.file.filename": "/offsets",
            "status.storage.replication.factor": "-1",
            "status.storage.replication.factr": "1",
        }
    )
    assert config.config_topic.settings == {"min.insync.replicas": "2"}
    assert (config.config_topic.partitions, config.config_topic.replication_factor) == (1, 1)
    assert config.offset_topic.settings == {"segment.bytes": "1000"}
    assert config.offset_topic.partitions == -1
    assert config.status_topic.replication_factor == -1
    assert "\n".join(config.warnings) == (
        "Ignoring 'config.storage.partitions=5' setting, since config topic partitions is always 1\n"
        "Ignoring 'offset.storage.cleanup.policy=delete' setting, since compaction is always used\n"
        "status.storage.replication.factr is passed to the topic, but is not a known topic setting; did "
        "you mean status.storage.replication.factor?\n"
        "offset.storage.file.filename is ignored: only standalone workers use it."
    )


def test_keys_without_effect_cause_warnings() -> None:
    config = parse(
        kraal__standalone__remember__configs="false",
        sesion__timeout__ms="1",
        linger__ms="1",
        offset__flush__interval__ms="1",
        max__poll__records="5",
    )
    assert set(config.warnings) == {
        "offset.flush.interval.ms is ignored: offsets are stored after each batch.",
        "kraal.standalone.remember.configs is ignored: only standalone workers use it.",
        "sesion.timeout.ms is ignored: unknown configuration; did you mean session.timeout.ms?",
        "linger.ms is ignored: it needs a client's prefix, such as consumer.linger.ms.",
        "max.poll.records is ignored: it needs a client's prefix, such as consumer.max.poll.records.",
    }


def test_java_only_settings_cause_warnings() -> None:
    config = parse(ssl__cipher__suites="TLS_AES_256_GCM_SHA384", ssl__protocol="TLSv1.3")
    assert config.warnings == (
        "ssl.cipher.suites has no effect on the worker's own Kafka clients, which are not Java clients.",
    )


def test_distributed_keys_in_standalone_config_cause_warnings() -> None:
    raw = {**MINIMAL_CONFIG, "offset.storage.file.filename": "/o", "status.storage.segment.bytes": "1"}
    warnings = parse_standalone(raw).warnings
    assert "group.id is ignored: only distributed workers use it." in warnings
    assert "status.storage.segment.bytes is ignored: only distributed workers use it." in warnings
    assert len(warnings) == 5


SUPPORTED_ALGORITHMS = "HmacSHA256, HmacSHA384, HmacSHA512, HmacSHA224, HmacSHA1, HmacMD5"
UNSUPPORTED_ALGORITHM_ERROR = (
    f"the algorithm is not supported by this worker; the supported algorithms are: {SUPPORTED_ALGORITHMS}"
)
PROTOCOL_ERROR = (
    "Invalid Connect protocol compatibility: it must be one of eager, compatible, sessioned, static"
)
INVALID_VALUES = [
    ("connect.protocol", "lazy", PROTOCOL_ERROR),
    (
        "exactly.once.source.support",
        "maybe",
        "String must be one of (case insensitive): DISABLED, PREPARING, ENABLED",
    ),
    (
        "offset.storage.partitions",
        "0",
        "Number of partitions must be positive, or -1 to use the broker's default",
    ),
    (
        "status.storage.replication.factor",
        "-2",
        "Replication factor must be positive and not larger than the number",
    ),
    ("config.storage.replication.factor", "40000", "Not a number of type SHORT"),
    ("scheduled.rebalance.max.delay.ms", "-1", "Value must be at least 0"),
    ("session.timeout.ms", "0", "Value must be at least 1"),
    (
        "heartbeat.interval.ms",
        "10000",
        "Heartbeat must be set lower than the session timeout, which is 10000",
    ),
    (
        "inter.worker.signature.algorithm",
        "HmacSHA512",
        "Signature algorithm must be present in inter.worker.verification.algorithms list",
    ),
    ("inter.worker.key.generation.algorithm", "AES", UNSUPPORTED_ALGORITHM_ERROR),
    (
        "inter.worker.key.size",
        "8",
        "Unable to create key generator with algorithm HmacSHA256 and key size 8: Key length must be at least 40 bits",
    ),
    ("mixed.group.missing.plugins", "ignore", "String must be one of: refuse, fail-task"),
    (
        "security.protocol",
        "TLS",
        "String must be one of (case insensitive): PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ),
    ("metadata.recovery.strategy", "pray", "String must be one of (case insensitive): NONE, REBOOTSTRAP"),
    ("group.id", "", "String must be non-empty"),
    ("consumer.max.poll.records", "many", "Not a number of type INT"),
    ("default.api.timeout.ms", "soon", "Not a number of type INT"),
]


@pytest.mark.parametrize(("name", "value", "reason"), INVALID_VALUES)
def test_invalid_values_are_rejected(name: str, value: str, reason: str) -> None:
    assert find_error(name, value).startswith(f"Invalid value {value} for configuration {name}: {reason}")


def test_each_verification_algorithm_is_checked() -> None:
    key = "inter.worker.verification.algorithms"
    reason = "At least one signature verification algorithm must be provided"
    assert find_error(key, "") == f"Invalid value [] for configuration {key}: {reason}"
    assert (
        find_error(key, "HmacSHA256,MD2")
        == f"Invalid value MD2 for configuration {key}: {UNSUPPORTED_ALGORITHM_ERROR}"
    )


def test_session_key_algorithm_and_size_are_configurable() -> None:
    config = parse(inter__worker__key__generation__algorithm="HmacSHA512", inter__worker__key__ttl__ms="0")
    assert (config.session_key_size, config.session_key_ttl_ms) == (64, 0)
    assert parse(inter__worker__key__size="65").session_key_size == 9


def test_all_errors_are_reported_together() -> None:
    errors = find_errors(
        {
            "value.converter": STRING_CONVERTER,
            "listeners": "https://:1",
            "connect.protocol": "x",
            "inter.worker.verification.algorithms": "HmacSHA512",
            "security.protocol": "SASL_SSL",
            "producer.linger.ms": "soon",
            "consumer.security.protocol": "SSL",
            "consumer.ssl.truststore.location": "/nowhere",
        }
    )
    assert [error.partition(": ")[0] for error in errors] == [
        'Missing required configuration "bootstrap.servers" which has no default value.',
        'Missing required configuration "key.converter" which has no default value.',
        'Missing required configuration "group.id" which has no default value.',
        "Invalid value x for configuration connect.protocol",
        'Missing required configuration "config.storage.topic" which has no default value.',
        'Missing required configuration "offset.storage.topic" which has no default value.',
        'Missing required configuration "status.storage.topic" which has no default value.',
        "Invalid value null for configuration ssl.keystore.location",
        "Invalid value soon for configuration producer.linger.ms",
        "Invalid value null for configuration sasl.mechanism",
        "Invalid value /nowhere for configuration consumer.ssl.truststore.location",
        "Invalid value HmacSHA256 for configuration inter.worker.signature.algorithm",
    ]


def test_group_client_uses_worker_defaults() -> None:
    config = parse(
        request__timeout__ms="50000", client__id="me", session__timeout__ms="6000", security__protocol="SSL"
    )
    assert config.client == {"request.timeout.ms": "50000", "security.protocol": "SSL"}
    assert config.own_client == {**config.client, "bootstrap.servers": "a:1,b:2"}
    assert config.group_client == {
        "bootstrap.servers": "a:1,b:2",
        "client.dns.lookup": "use_all_dns_ips",
        "security.protocol": "SSL",
        "request.timeout.ms": "50000",
        "metadata.max.age.ms": "300000",
        "connections.max.idle.ms": "540000",
        "send.buffer.bytes": "131072",
        "receive.buffer.bytes": "32768",
        "retry.backoff.ms": "100",
        "retry.backoff.max.ms": "1000",
        "reconnect.backoff.ms": "50",
        "reconnect.backoff.max.ms": "1000",
        "socket.connection.setup.timeout.ms": "10000",
        "socket.connection.setup.timeout.max.ms": "30000",
        "metadata.recovery.rebootstrap.trigger.ms": "300000",
        "metadata.recovery.strategy": "rebootstrap",
        "metadata.cluster.check.enable": "true",
        "bootstrap.resolve.timeout.ms": "0",
    }


def test_repr_omits_secrets() -> None:
    line = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hush";'
    raw = {
        **MINIMAL_CONFIG,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": line,
        "producer.sasl.jaas.config": line,
        "key.converter.basic.auth": "hush",
    }
    assert "hush" not in repr(parse_distributed(raw))
    standalone_config = parse_standalone({**raw, "offset.storage.file.filename": "/o"})
    assert "hush" not in repr(standalone_config)
    (error,) = find_errors({**raw, "sasl.jaas.config": line.rstrip(";")})
    assert "hush" not in error


def test_standalone_and_distributed_share_worker_keys() -> None:
    shared_keys = {key.name for key in STANDALONE} - {
        "offset.storage.file.filename",
        "ledger.storage.file.filename",
        "kraal.standalone.remember.configs",
    }
    assert shared_keys <= {key.name for key in DISTRIBUTED}
    assert all(key.doc and key.source for key in DISTRIBUTED)


def test_load_distributed_reads_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in MINIMAL_CONFIG.items()), "utf-8")
    assert load_distributed(path).group_id == "cluster"


def parse_with_basic_auth(directory: Path, **extra: str) -> DistributedConfig:
    """Return a config with basic authentication."""
    (directory / "users").write_text("ann=secret")
    jaas_file = directory / "jaas.conf"
    jaas_file.write_text(f'KafkaConnect {{ PropertyFileLoginModule required file="{directory}/users"; }};')
    return parse(
        rest__extension__classes="BasicAuthSecurityRestExtension",
        java__security__auth__login__config=str(jaas_file),
        **extra,
    )


def test_unsigned_internal_requests_are_refused_by_default_with_basic_authentication(tmp_path: Path) -> None:
    assert parse().accepts_unsigned
    assert parse(connect__protocol="eager").warnings == ()
    assert not parse_with_basic_auth(tmp_path).accepts_unsigned
    assert parse_with_basic_auth(tmp_path).warnings == ()


def test_unsigned_protocol_causes_warning_with_basic_authentication(tmp_path: Path) -> None:
    (warning,) = parse_with_basic_auth(tmp_path, connect__protocol="compatible").warnings
    assert warning == (
        "connect.protocol=compatible does not sign requests, so this worker will reject requests of other workers: "
        "set connect.protocol=sessioned on all of them, or internal.requests.unsigned=allow."
    )
    config = parse_with_basic_auth(
        tmp_path, connect__protocol="compatible", internal__requests__unsigned="allow"
    )
    assert config.accepts_unsigned
    (warning,) = config.warnings
    assert "any client that can reach this worker can write task configs without a password" in warning
    assert "String must be one of: refuse, allow" in find_error("internal.requests.unsigned", "perhaps")


def test_values_are_trimmed_except_plugin_settings() -> None:
    plugins = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.own": " own ",
        "value.converter.own": "own ",
    }
    trimmed_config = {**MINIMAL_CONFIG, **plugins, "key.converter": STRING_CONVERTER, "producer.acks": "all"}
    padded_config = {
        key: text if key.endswith(".own") else f" \t{text} \t" for key, text in trimmed_config.items()
    }
    assert parse_distributed(padded_config) == parse_distributed(trimmed_config)
    offset_file = {"offset.storage.file.filename": "/o"}
    assert parse_standalone({**padded_config, **offset_file}).raw == {**trimmed_config, **offset_file}


def test_bootstrap_resolve_timeout_is_ignored_with_warning() -> None:
    config = parse(bootstrap__resolve__timeout__ms="5000")
    [warning] = config.warnings
    assert warning == (
        "The value 5000 for the bootstrap.resolve.timeout.ms property will be ignored as Kafka Connect does not "
        "support asynchronous bootstrap resolution. The value 0 will be used instead."
    )
    assert config.group_client["bootstrap.resolve.timeout.ms"] == "0"
    assert config.raw["bootstrap.resolve.timeout.ms"] == "0"
    assert parse(bootstrap__resolve__timeout__ms="0").warnings == ()
    assert "bootstrap.resolve.timeout.ms" in find_error("bootstrap.resolve.timeout.ms", "-1")


@pytest.mark.parametrize(
    ("idle_ms", "has_warning"), [("-1", False), ("0", True), ("59999", True), ("60000", False)]
)
def test_short_max_idle_causes_warning(idle_ms: str, *, has_warning: bool) -> None:
    warnings = parse(connections__max__idle__ms=idle_ms).warnings
    assert bool(warnings) is has_warning
    assert all(
        warning
        == f"Configuration 'connections.max.idle.ms' with value '{idle_ms}' is lower than configuration "
        "'rebalance.timeout.ms' with value '60000'. This may cause the connection to the group coordinator to be "
        "closed during an ongoing rebalance, which can prolong or disrupt group rejoin."
        for warning in warnings
    )
