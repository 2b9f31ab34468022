"""Authentication of GET requests between workers by the group's session key instead of a password.

A password would be exposed to any server at the requested address. A signature proves that the sender can read the
config topic. The signature covers the worker's address, the path and the query, so it is not valid for another request.
The signing key is derived from the session key, so that a signed GET does not authorize a write (KIP-507). Java workers
ignore the signature.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kraal.protocol.signature import ALGORITHM_HEADER, SIGNATURE_HEADER, Signature, is_signed_get, sign_get

if TYPE_CHECKING:
    from starlette.types import Scope

    from web.settings import Services


def read_headers(services: Services, url: str, target: bytes) -> Mapping[str, str]:
    """Return the headers for a GET of `target` from the worker at `url`; empty if the group has no session key."""
    key = services.published.latest.config.session_key
    if key is None:
        return {}
    return sign_get(key.key, url, target, services.settings.signature_algorithm)


def is_signed_read(services: Services, scope: Scope) -> bool:
    """Return whether a request is a GET signed by a worker of this group for this worker."""
    if scope["method"] != "GET":
        return False
    headers = dict(scope["headers"])
    value, algorithm = (headers.get(name.lower().encode()) for name in (SIGNATURE_HEADER, ALGORITHM_HEADER))
    key = services.published.latest.config.session_key
    if value is None or algorithm is None or key is None:
        return False
    query = scope["query_string"]
    target = scope["raw_path"] + (b"?" + query if query else b"")
    return is_signed_get(
        Signature(value.decode("latin-1"), algorithm.decode("latin-1")),
        key=key.key,
        allowed_algorithms=services.settings.verification_algorithms,
        url=services.settings.advertised_url,
        target=target,
    )
