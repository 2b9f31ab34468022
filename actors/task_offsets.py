"""Where a source's task has its offsets from, and who stores them: the offset keeper, or itself with its records."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from actors.messages.claims import ClaimTask, DropClaim
from actors.messages.stores import LoadOffsets, StoreOffsets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.mailbox import Address
    from kraal.offsets import Offset, SourcePartition
    from kraal.spark.api import TaskSpec

KEEPER_PATIENCE_S = 3.0
CLAIM_PATIENCE_S = 150.0
numbers = itertools.count(1)
"""Numbers questions, and runs, over all lives of all tasks, so that no answer is ever mistaken."""


class TaskOffsets:
    """Asks for a task. Its actor's thread only."""

    def __init__(
        self, *, spec: TaskSpec, version: int, me: Address, keeper: Address, claims: Address | None
    ) -> None:
        """`version`: of the task's configs. `claims`: for a source that delivers exactly once."""
        self._spec = spec
        self._version = version
        self._me = me
        self._keeper = keeper
        self._claims = claims

    def load(self, token: int) -> tuple[int, float]:
        """Ask, perhaps again; return the token that the answer will have, and for how long to wait for it.

        Each claim has a token of its own: what comes of an earlier one must not count, for the later one fences it.
        """
        task = self._spec.task
        if self._claims is None:
            self._keeper.tell(LoadOffsets(connector=task.connector, reply_to=self._me, token=token))
            return token, KEEPER_PATIENCE_S
        self.drop(token)
        fresh = next(numbers)
        self._claims.tell(
            ClaimTask(
                task=task,
                version=self._version,
                config=self._spec.connector_config,
                lease=self._spec.lease,
                reply_to=self._me,
                token=fresh,
            )
        )
        return fresh, CLAIM_PATIENCE_S

    def store(self, offsets: Mapping[SourcePartition, Offset], token: int) -> None:
        """Have offsets stored that the run has not stored itself."""
        name, lease = self._spec.task.connector, self._spec.lease
        self._keeper.tell(
            StoreOffsets(connector=name, offsets=offsets, reply_to=self._me, token=token, lease=lease)
        )

    def drop(self, token: int) -> None:
        """The answer is not wanted any more."""
        if self._claims is not None:
            self._claims.tell(DropClaim(token))
