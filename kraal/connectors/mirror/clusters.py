"""A mirror's two clusters: listing topics and creating the missing ones."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from kraal.config.values import as_strings
from kraal.connectors.mirror.clients import ClusterTopics
from kraal.connectors.mirror.config import source_admin, target_admin
from kraal.connectors.mirror.offset_syncs import SETTINGS, is_in_source, is_written, topic_name
from kraal.connectors.mirror.topics import (
    Choice,
    any_of,
    is_match,
    list_partitions,
    make_choice,
    missing,
)
from kraal.plugins.api import RetriableError, TopicPartition

log = logging.getLogger(__name__)


class Clusters:
    """The two clusters of a mirror. Thread-safe."""

    def __init__(self, config: Mapping[str, str], parsed: Mapping[str, object]) -> None:
        """Create the clients. Raises ConfigInvalid for invalid client settings."""
        timeout_s = max(0.001, int(str(parsed["admin.timeout.ms"])) / 1000)
        self._choice: Choice = make_choice(parsed)
        self._source = ClusterTopics(source_admin(config), timeout_s)
        self._target = ClusterTopics(target_admin(config), timeout_s)
        self._factor = int(str(parsed["replication.factor"]))
        self._kept_out = any_of(as_strings(parsed["config.properties.exclude"]))
        self._syncs = topic_name(parsed, self._choice.naming) if is_written(parsed) else None
        """The offset-syncs topic, until it is known to exist."""
        self._syncs_are_in_source = is_in_source(parsed)
        self._syncs_factor = int(str(parsed["offset-syncs.topic.replication.factor"]))

    def refresh(self) -> tuple[TopicPartition, ...]:
        """Create missing topics and partitions in the target, and return the partitions to copy.

        Raises RetriableError, MirrorRequestFailed, PatternTooSlow.
        """
        counts = self._source.counts()
        source = {topic: n for topic, n in counts.items() if self._choice.includes(topic)}
        target = self._target.counts() if source else {}
        if source:
            self._create_syncs(counts if self._syncs_are_in_source else target)
        naming = self._choice.naming
        lacks = missing(source, target, naming)
        if lacks.create:
            configs = self._source.settings([t for t in source if naming.remote(t) in lacks.create])
            settings = {naming.remote(topic): self._copy(config) for topic, config in configs.items()}
            errors = self._target.create(lacks.create, self._factor, settings)
            _log_changes("created", lacks.create, errors)
            target |= {name: count for name, count in lacks.create.items() if name not in errors}
        if lacks.grow:
            errors = self._target.grow(lacks.grow)
            _log_changes("given more partitions", lacks.grow, errors)
            target |= {name: count for name, count in lacks.grow.items() if name not in errors}
        room = {topic: min(count, target.get(naming.remote(topic), 0)) for topic, count in source.items()}
        if source and not any(room.values()):
            raise RetriableError("the target has none of the topics, and none could be created there")
        return list_partitions(room)

    def _create_syncs(self, topics: Collection[str]) -> None:
        """Create the offset-syncs topic if its cluster lacks it. A failure is logged: records are copied without it."""
        name = self._syncs
        if name is None:
            return
        errors: Mapping[str, str] = {}
        if name not in topics:
            cluster = self._source if self._syncs_are_in_source else self._target
            errors = cluster.create({name: 1}, self._syncs_factor, {name: SETTINGS})
            _log_changes("created", {name: 1}, errors)
        if not errors:
            self._syncs = None

    def _copy(self, settings: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in settings.items() if not is_match(self._kept_out, k)}


def _log_changes(what: str, counts: Mapping[str, int], errors: Mapping[str, str]) -> None:
    for name, count in counts.items():
        if name in errors:
            log.warning("topic %s with %d partitions could not be %s: %s", name, count, what, errors[name])
        else:
            log.info("topic %s was %s: it has %d", name, what, count)
