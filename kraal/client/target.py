"""Address and credentials of the worker, from a URL and the environment, validated before any request is sent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from kraal.config.values import Password
from kraal.core.errors import BadRequest

DEFAULT_URL = "http://127.0.0.1:8083"


class InvalidTarget(BadRequest):
    """Raised if the connection options are invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A worker's address. Its `repr` contains no secret."""

    url: str
    """URL without credentials and trailing slash, as shown in errors."""
    user: str | None = None
    password: Password | None = None
    cacert: Path | None = None
    timeout_s: float = 100.0
    """Timeout of a request; the default exceeds the worker's own timeout of 90 s."""
    retry_s: float = 30.0
    """Time limit for retries of a request during a rebalance."""


def parse_target(
    url: str,
    *,
    user: str | None = None,
    password: str | None = None,
    cacert: Path | None = None,
    timeout_s: float = 100.0,
    retry_s: float = 30.0,
) -> Target:
    """Parse a URL. `host:port` implies http; credentials in the URL take precedence. Raises InvalidTarget."""
    parts = _split_url(url.strip())
    shown_url = _without_credentials(parts)
    if parts.scheme not in ("http", "https"):
        raise InvalidTarget(f"Invalid worker URL '{shown_url}'; expected http:// or https://.")
    if parts.query or parts.fragment:
        raise InvalidTarget(f"Invalid worker URL '{shown_url}'; query and fragment are not allowed.")
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
    if password is not None and user is None:
        raise InvalidTarget("Password without user; set KRAAL_USER too, or specify both in the URL.")
    if cacert is not None and parts.scheme != "https":
        raise InvalidTarget(f"--cacert requires an https URL, but the URL is {shown_url}.")
    return Target(
        url=shown_url,
        user=user,
        password=Password(password or "") if user is not None else None,
        cacert=cacert,
        timeout_s=timeout_s,
        retry_s=retry_s,
    )


def _split_url(url: str) -> SplitResult:
    parts: SplitResult | None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        port = 0
        parts = None
    if parts is None or not parts.hostname or port == 0:  # the URL may contain a password if it has an @
        url_text = "" if "@" in url else f" '{url}'"
        raise InvalidTarget(f"Invalid worker URL{url_text}; expected something like http://host:8083.")
    return parts


def _without_credentials(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}".rstrip("/")
