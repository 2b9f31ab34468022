"""Which worker to ask, and as whom: out of a URL and the environment, checked before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from kraal.config.values import Password
from kraal.errors import BadRequest

DEFAULT_URL = "http://127.0.0.1:8083"


class BadTarget(BadRequest):
    """What the command line says about the worker to ask cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A worker's address. Holds no secret that could be printed by accident."""

    url: str
    """Without credentials and without a slash at the end: it is shown in errors."""
    user: str | None = None
    password: Password | None = None
    cacert: Path | None = None
    timeout_s: float = 100.0
    """For one answer; more than the 90 s after which a worker answers by itself."""
    retry_s: float = 30.0
    """How long a request is repeated while a rebalance is in its way."""


def parse_target(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    cacert: Path | None = None,
    timeout_s: float = 100.0,
    retry_s: float = 30.0,
) -> Target:
    """Parse a URL; `host:port` means http, and credentials in the URL win over the others. Raises BadTarget."""
    text = url.strip()
    parts = _split(text if "://" in text else f"http://{text}")
    shown = _without_credentials(parts)
    if parts.scheme not in ("http", "https"):
        raise BadTarget(f"{shown} is no URL of a worker: it begins with http:// or https://.")
    if parts.query or parts.fragment:
        raise BadTarget(f"{shown} is no URL of a worker: it ends with the port or a path.")
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
    if password is not None and user is None:
        raise BadTarget("There is a password and no user: set KRAAL_USER too, or give both in the URL.")
    if cacert is not None and parts.scheme != "https":
        raise BadTarget(f"--cacert is for https, and the URL is {shown}.")
    return Target(
        url=shown,
        user=user,
        password=Password(password or "") if user is not None else None,
        cacert=cacert,
        timeout_s=timeout_s,
        retry_s=retry_s,
    )


def _split(url: str) -> SplitResult:
    parts: SplitResult | None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        port = 0
        parts = None
    if parts is None or not parts.hostname or port == 0:  # not repeated: it may hold a password
        raise BadTarget("The URL of the worker is none: it looks like http://host:8083.")
    return parts


def _without_credentials(parts: SplitResult) -> str:
    where = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{where}{parts.path}".rstrip("/")
