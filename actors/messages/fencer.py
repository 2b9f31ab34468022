"""Messages that the fencer receives and sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.runtime.mailbox import Address, Tell


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceProducers(Tell):
    """Fence the producers with these transactional ids. The fencer sends `ProducersFenced` to `reply_to`."""

    token: int
    transactional_ids: Sequence[str]
    reply_to: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducersFenced(Tell):
    """The request with `token` has succeeded, or failed with `error`."""

    token: int
    error: Exception | None = None
