"""Process of a distributed worker: its logs and offsets are stored in Kafka topics, and the group assigns its work.

The process opens its sockets first. It then creates or checks the topics, reads them to their ends, and joins the
group. It retries while brokers are down, and waits if an administrator must change a topic.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from actors.assembly import Assembly
from actors.exactly_once.claims import fence_at_leader
from actors.herding.state import HerderSettings, SessionKeySettings
from actors.herding.task_config_publisher import send_to_leader
from actors.parts import ClusterParts, Parts
from kraal.cluster.membership.member_state import MemberSettings
from kraal.config.clients.kafka_python import kafka_python_options
from kraal.config.clients.librdkafka import librdkafka_options
from kraal.config.worker.distributed import DistributedConfig, MissingPlugins, load_distributed
from kraal.core.errors import KraalError, TopicUnusable
from kraal.core.private_files import find_writable
from kraal.core.scratch import Scratch
from kraal.java_plugins.parts import start_java_plugins
from kraal.java_plugins.services import resolve_worker_config
from kraal.kafka.fencing import fence_producers
from kraal.kafka.group import KafkaGroup
from kraal.kafka.log import KafkaLog
from kraal.kafka.offset_store import KafkaOffsets
from kraal.kafka.source_transactions import SourceTransactions
from kraal.kafka.tokens import TokenProvider
from kraal.kafka.topics import TopicAdmin, ensure_topics
from kraal.kafka.write_failures import config_failure
from kraal.plugin_lock.start import load_worker_plugins
from kraal.plugins.registry import Registry
from kraal.stores.group_api import GroupOptions
from kraal.stores.reopened_log import ReopenedLog
from kraal.worker.internal_topics import InternalTopicsCheck, internal_topics, ledger_topic, offset_topic
from kraal.worker.process import START_FAILED, Process

if TYPE_CHECKING:
    from kraal.engine.api import Engine
    from kraal.java_plugins.hosts import PluginHosts
    from kraal.plugins.worker_plugins import WorkerPlugins
    from kraal.stores.api import Log
    from web.settings import Settings

log = logging.getLogger(__name__)

GROUP_CLOSE_TIMEOUT_S = 5.0
FENCE_TIMEOUT_S = 15.0


class DistributedProcess(Process[DistributedConfig]):
    """The process of a distributed worker."""

    _offsets: KafkaOffsets

    def __init__(self, config: DistributedConfig, plugin_jars: Sequence[Path] = ()) -> None:
        """Bind the sockets and read the key stores, without connecting to Kafka.

        Raises KraalError with a message for the operator.
        """
        super().__init__(config, plugin_jars)
        self._own_scratch: Scratch | None = None
        try:
            self._own_scratch = _create_scratch(config)
            self._open()
        except KraalError:
            self._server.close()
            raise

    def _open(self) -> None:
        config = self.config
        options = {**librdkafka_options(config.own_client), "group.id": config.group_id}
        self._kafka = options
        client_id_base = config.client_id_base
        self._admin = TopicAdmin(options, client_id=f"{client_id_base}shared-admin")
        self._topics = InternalTopicsCheck(self._ensure_topics, self._ended, self._on_unusable_topic)
        self._config_log = KafkaLog(
            config.config_topic.name,
            options,
            client_id=f"{client_id_base}configs",
            admin=self._admin,
            transactional_id=config.transactional_id,
            failure=config_failure,
            may_read=self._topics.wait,
        )
        self._status_log = KafkaLog(
            config.status_topic.name,
            options,
            client_id=f"{client_id_base}statuses",
            admin=self._admin,
            may_read=self._topics.wait,
        )
        self._offsets = KafkaOffsets(
            config.offset_topic.name,
            options,
            client_id=f"{client_id_base}offsets",
            admin=self._admin,
            read_committed=config.exactly_once_sources,
        )
        self._ledger_log = self._make_ledger_log()
        self._transactions = self._source_transactions() if config.exactly_once_sources else None
        client = kafka_python_options(config.group_client, scratch=self._scratch(), tokens=TokenProvider)
        self._group = KafkaGroup(
            GroupOptions(
                group_id=config.group_id,
                session_timeout_s=config.session_timeout_s,
                rebalance_timeout_s=config.rebalance_timeout_s,
                heartbeat_interval_s=config.heartbeat_interval_s,
            ),
            {**client, "client_id": config.member_client_id},
        )

    def _make_ledger_log(self) -> Log | None:
        """Return the log of the ledger, whose topic is created or checked on first use; None without a ledger."""
        topic = self.config.ledger_topic
        if topic is None:
            return None

        def open_log() -> Log:
            ensure_topics(self._admin, [ledger_topic(topic)], create=self.config.creates_topics)
            client_id = f"{self.config.client_id_base}ledger"
            return KafkaLog(topic.name, self._kafka, client_id=client_id, admin=self._admin)

        return ReopenedLog(topic.name, open_log)

    @override
    def _with_java_plugins(self, registry: Registry) -> tuple[Registry, PluginHosts | None]:
        return start_java_plugins(
            registry,
            self._worker_settings(),
            session_timeout_s=self.config.session_timeout_s,
            is_stopping=self._end_requested.is_set,
        )

    def _source_transactions(self) -> SourceTransactions:
        config = self.config
        return SourceTransactions(
            self._worker_settings(),
            group_id=config.group_id,
            topic=offset_topic(config),
            worker_offsets=self._offsets,
            client_id_base=config.client_id_base,
            creates_topics=config.creates_topics,
        )

    @override
    def _scratch(self) -> Path:
        if self._own_scratch is None:
            raise RuntimeError("the scratch directory must be created first")
        return self._own_scratch.path

    @override
    def _settings(self) -> Settings:
        return replace(
            super()._settings(),
            distributed=True,
            verification_algorithms=self.config.verification_algorithms,
            signature_algorithm=self.config.signature_algorithm,
            members=self._group.members,
            start_problem=lambda: self._topics.problem,
            allow_unsigned_internal=self.config.accepts_unsigned,
        )

    @override
    def _client_id(self) -> str:
        return self.config.member_client_id

    @override
    def _client_options(self) -> dict[str, str]:
        return self._kafka

    @override
    def _herder_settings(self) -> HerderSettings:
        config = self.config
        return replace(
            super()._herder_settings(),
            session_keys=SessionKeySettings(
                algorithm=config.session_key_algorithm,
                size=config.session_key_size,
                ttl_ms=config.session_key_ttl_ms,
            ),
            signature_algorithm=config.signature_algorithm,
            group_id=config.group_id,
            transactional=config.exactly_once.transactional_leader,
        )

    @override
    def _parts(self, engine: Engine, plugins: WorkerPlugins) -> Parts:
        config = self.config
        refuses = config.missing_plugins is MissingPlugins.REFUSE
        return replace(
            super()._parts(engine, plugins),
            cluster=ClusterParts(
                group=self._group,
                protocol=config.protocol,
                static_assignment=config.static_assignments,
                member=MemberSettings(
                    sync_timeout_s=config.worker_sync_timeout_s,
                    unsync_backoff_s=config.worker_unsync_backoff_s,
                    max_delay_s=config.scheduled_rebalance_max_delay_ms / 1000,
                    session_timeout_s=config.session_timeout_s,
                    rebalance_timeout_s=config.rebalance_timeout_s,
                ),
                fence=self._fence,
                transactions=self._transactions,
                send_fence=partial(fence_at_leader, tls=self._peer_tls),
                send=partial(send_to_leader, tls=self._peer_tls),
                refuse=self._refuse if refuses else None,
            ),
        )

    def _fence(self, transactional_ids: Sequence[str]) -> None:
        fence_producers(
            self._kafka,
            transactional_ids,
            client_id=f"{self.config.client_id_base}shared-admin",
            timeout_s=FENCE_TIMEOUT_S,
        )

    def _refuse(self, reason: str) -> None:
        log.critical("%s", reason)
        self.end(START_FAILED)

    @override
    def _before_actors(self) -> None:
        self._topics.start()

    def _ensure_topics(self) -> None:
        config = self.config
        ensure_topics(self._admin, internal_topics(config), create=config.creates_topics)

    def _on_unusable_topic(self, error: TopicUnusable) -> None:
        log.critical("%s", error)
        self.end(START_FAILED)

    @override
    def _on_stopped(self, assembly: Assembly) -> None:
        self._group.close(GROUP_CLOSE_TIMEOUT_S)

    @override
    def _close_stores(self) -> None:
        if self._transactions is not None:
            self._transactions.close()
        for store in (self._config_log, self._status_log, self._offsets):
            store.close()
        self._admin.close()
        if self._own_scratch is not None:
            self._own_scratch.close()


def _create_scratch(config: DistributedConfig) -> Scratch:
    """Create this process's scratch directory, and remove the directories of ended processes. Raises KraalError."""
    parent = Path(tempfile.gettempdir()) if config.data_dir is None else config.data_dir / "scratch"
    try:
        scratch = Scratch(parent)
    except OSError as exc:
        raise KraalError(f"Cannot create a directory in {parent}: {exc.strerror}.") from exc
    for warning in find_writable([parent]):
        log.warning("%s", warning)
    return scratch


def run_distributed(worker_file: Path) -> int:
    """Run a distributed worker until a signal; return the exit code. Raises KraalError if startup fails."""
    plugin_jars = load_worker_plugins(worker_file)
    config = load_distributed(
        worker_file, resolve=Registry.load().resolve, resolve_variables=resolve_worker_config
    )
    for warning in config.warnings:
        log.warning("%s", warning)
    process = DistributedProcess(config, plugin_jars)
    process.end_on_signals()
    return process.run()
