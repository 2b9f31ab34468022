"""Offsets of a source task.

A task loads its offsets from the offset keeper or through a claim. The offsets are stored by the keeper, or in the same
transactions as the records.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from actors.messages.claims import CancelClaim, ClaimTask
from actors.messages.stores import LoadOffsets, StoreOffsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.runtime.mailbox import Address
    from kraal.core.offsets import Offset, SourcePartition
    from kraal.engine.api import TaskSpec

KEEPER_TIMEOUT_S = 3.0
CLAIM_TIMEOUT_S = 150.0
tokens = itertools.count(1)
"""Tokens of requests and runs, unique across all incarnations of all tasks, to recognize late replies."""


class TaskOffsets:
    """Sends a task's offset requests. Used on its actor's thread only."""

    def __init__(
        self, *, spec: TaskSpec, version: int, address: Address, keeper: Address, claims: Address | None
    ) -> None:
        """`version`: version of the task configs. `claims` is set for a source with exactly-once delivery."""
        self._spec = spec
        self._version = version
        self._address = address
        self._keeper = keeper
        self._claims = claims

    def load(self, token: int) -> tuple[int, float]:
        """Request the offsets; return the token of the reply, and the timeout.

        Each claim has its own token. Results of earlier claims must be dropped, because a later claim fences the
        producers of earlier ones.
        """
        task = self._spec.task
        if self._claims is None:
            self._keeper.tell(LoadOffsets(connector=task.connector, reply_to=self._address, token=token))
            return token, KEEPER_TIMEOUT_S
        self.drop(token)
        claim_token = next(tokens)
        self._claims.tell(
            ClaimTask(
                task=task,
                version=self._version,
                config=self._spec.connector_config,
                lease=self._spec.lease,
                reply_to=self._address,
                token=claim_token,
            )
        )
        return claim_token, CLAIM_TIMEOUT_S

    def store(self, offsets: Mapping[SourcePartition, Offset], token: int) -> None:
        """Store offsets that the run has not stored with its records."""
        name, lease = self._spec.task.connector, self._spec.lease
        self._keeper.tell(
            StoreOffsets(connector=name, offsets=offsets, reply_to=self._address, token=token, lease=lease)
        )

    def drop(self, token: int) -> None:
        """Cancel the claim with this token."""
        if self._claims is not None:
            self._claims.tell(CancelClaim(token))
