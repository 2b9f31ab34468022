"""Requests of an embedded cluster's workers to their leader, simulating REST."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from actors.runtime.mailbox import settle
from kraal.core.errors import ActorDied, KraalError
from kraal.peers import RESPONSE_TIMEOUT_S, PeerFailed, PeerRefused

if TYPE_CHECKING:
    from actors.runtime.mailbox import Ask
    from kraal.testing._simulation.cluster_worker import ClusterWorker


def ask_leader(
    leader: ClusterWorker | None, sender: ClusterWorker, url: str, key: bytes | None, message: Ask[Any]
) -> Future[None]:
    """Send a message to the herder of the worker at `url`. Raises PeerFailed, PeerRefused."""
    if leader is None:
        raise PeerFailed(f"no worker is listening at {url}")
    _check_key(leader, key)
    response: Future[None] = Future()
    future = leader.assembly.herder.question(message)
    future.add_done_callback(lambda done: settle(response, None, _as_peer_error(done.exception())))
    timeout_error = PeerFailed(f"{url} gave no response")
    sender.schedule_call(RESPONSE_TIMEOUT_S, lambda: settle(response, None, timeout_error))
    return response


def _as_peer_error(error: BaseException | None) -> BaseException | None:
    """Convert an error to the error that another worker's REST API would return."""
    if not isinstance(error, KraalError):
        return error
    status = 503 if isinstance(error, ActorDied) else getattr(error, "status", 500)
    return PeerRefused(status, status, str(error))


def _check_key(leader: ClusterWorker, signature_key: bytes | None) -> None:
    """Reject requests that are not signed with the leader's session key. Raises PeerRefused."""
    snapshot = leader.snapshot
    if snapshot.protocol is not None and not snapshot.protocol.is_signed:
        return
    if signature_key is None:
        raise PeerRefused(400, 400, "Internal request missing required header")
    key = snapshot.config.session_key
    if key is None or key.key != signature_key:
        raise PeerRefused(403, 403, "Internal request contained invalid signature.")
