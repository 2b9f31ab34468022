"""Removes a member from its consumer group over a separate connection, with kafka-python.

The broker processes no other request on a connection with a pending JoinGroup, which may wait for the slowest member;
therefore, a client's LeaveGroup is not processed during a join (GroupCoordinator, KIP-345).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from kafka.admin import MemberToRemove
from kafka.errors import KafkaError, NoError, UnknownMemberIdError

from kraal.config.clients.kafka_python import kafka_python_options
from kraal.kafka.python_admin import admin_client
from kraal.kafka.tokens import TokenProvider

log = logging.getLogger(__name__)

_TIMEOUT_S = 3.0


def leave_group(settings: Mapping[str, str], group: str, member_id: str, *, scratch: Path) -> None:
    """Remove `member_id` from `group`; log failures. Blocks. Thread-safe.

    `settings` contains a consumer's settings by the names of Kafka's Java client, including `bootstrap.servers`.
    """
    began_s = time.monotonic()
    try:
        options = kafka_python_options(settings, scratch=scratch, tokens=TokenProvider)
        options["request_timeout_ms"] = round(_TIMEOUT_S * 1000)
        with admin_client(options, bootstrap_timeout_s=_TIMEOUT_S) as client:
            errors = client.remove_group_members(group, [MemberToRemove(member_id=member_id)])
    except (KafkaError, OSError) as error:
        log.warning("%s: Failed to remove member %s from the group: %r", group, member_id, error)
        return
    if (error_class := errors.get(member_id, NoError)) not in (NoError, UnknownMemberIdError):
        log.warning(
            "%s: Failed to remove member %s from the group: %s", group, member_id, error_class.__name__
        )
    else:
        duration_ms = (time.monotonic() - began_s) * 1000
        log.info("%s: Member %s left the group during a join, in %.0f ms", group, member_id, duration_ms)
