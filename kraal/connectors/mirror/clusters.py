"""Lists the topics of a mirror's source cluster, and creates missing topics in the target cluster."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from kraal.config.values import as_strings
from kraal.connectors.mirror.clients import ClusterTopics
from kraal.connectors.mirror.config import make_source_admin_settings, make_target_admin_settings
from kraal.connectors.mirror.offset_syncs import TOPIC_SETTINGS, get_topic_name, is_in_source, writes_syncs
from kraal.connectors.mirror.topics import (
    TopicFilter,
    compile_patterns,
    find_missing,
    list_partitions,
    make_topic_filter,
    matches_any,
)
from kraal.plugins.api import RetriableError, TopicPartition

log = logging.getLogger(__name__)


class Clusters:
    """The two clusters of a mirror. Thread-safe."""

    def __init__(self, config: Mapping[str, str], parsed: Mapping[str, object]) -> None:
        """Create the clients. Raises ConfigInvalid for invalid client settings."""
        timeout_s = max(0.001, int(str(parsed["admin.timeout.ms"])) / 1000)
        self._filter: TopicFilter = make_topic_filter(parsed)
        self._source = ClusterTopics(make_source_admin_settings(config), timeout_s)
        self._target = ClusterTopics(make_target_admin_settings(config), timeout_s)
        self._replication_factor = int(str(parsed["replication.factor"]))
        self._excluded_settings = compile_patterns(as_strings(parsed["config.properties.exclude"]))
        self._syncs_topic = get_topic_name(parsed, self._filter.policy) if writes_syncs(parsed) else None
        """The name of the offset-syncs topic; None once the topic exists, or if syncs are disabled."""
        self._syncs_are_in_source = is_in_source(parsed)
        self._syncs_factor = int(str(parsed["offset-syncs.topic.replication.factor"]))

    def refresh(self) -> tuple[TopicPartition, ...]:
        """Create missing topics and partitions in the target, and return the partitions to copy.

        Raises RetriableError, MirrorRequestFailed, PatternTooSlow.
        """
        counts = self._source.count_partitions()
        source_counts = {topic: count for topic, count in counts.items() if self._filter.includes(topic)}
        target_counts = self._target.count_partitions() if source_counts else {}
        if source_counts:
            self._create_syncs_topic(counts if self._syncs_are_in_source else target_counts)
        policy = self._filter.policy
        missing = find_missing(source_counts, target_counts, policy)
        if missing.topics:
            configs = self._source.describe_settings(
                [topic for topic in source_counts if policy.remote_topic(topic) in missing.topics]
            )
            settings = {
                policy.remote_topic(topic): self._select_settings(config) for topic, config in configs.items()
            }
            errors = self._target.create_topics(missing.topics, self._replication_factor, settings)
            _log_changes("created with", missing.topics, errors)
            target_counts |= {name: count for name, count in missing.topics.items() if name not in errors}
        if missing.partitions:
            errors = self._target.add_partitions(missing.partitions)
            _log_changes("expanded to", missing.partitions, errors)
            target_counts |= {name: count for name, count in missing.partitions.items() if name not in errors}
        counts_to_copy = {
            topic: min(count, target_counts.get(policy.remote_topic(topic), 0))
            for topic, count in source_counts.items()
        }
        if source_counts and not any(counts_to_copy.values()):
            raise RetriableError("the target has none of the topics, and none could be created")
        return list_partitions(counts_to_copy)

    def _create_syncs_topic(self, topics: Collection[str]) -> None:
        """Create the offset-syncs topic if it is missing. Failures are only logged; copying works without the topic."""
        name = self._syncs_topic
        if name is None:
            return
        errors: Mapping[str, str] = {}
        if name not in topics:
            cluster = self._source if self._syncs_are_in_source else self._target
            errors = cluster.create_topics({name: 1}, self._syncs_factor, {name: TOPIC_SETTINGS})
            _log_changes("created with", {name: 1}, errors)
        if not errors:
            self._syncs_topic = None

    def _select_settings(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {
            name: value for name, value in settings.items() if not matches_any(self._excluded_settings, name)
        }


def _log_changes(change: str, counts: Mapping[str, int], errors: Mapping[str, str]) -> None:
    """Log for each topic whether the change succeeded."""
    for name, count in counts.items():
        if name in errors:
            log.warning("Topic %s could not be %s %d partitions: %s", name, change, count, errors[name])
        else:
            log.info("Topic %s was %s %d partitions", name, change, count)
