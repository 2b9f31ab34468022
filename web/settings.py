"""What the REST API needs to know of the worker's config, and what it works with."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.mailbox import Address
from kraal import __version__
from kraal.cluster.snapshot import Published
from kraal.config.basic_auth import BasicAuth
from kraal.config.response_headers import HeaderRule
from kraal.ids import Config
from kraal.loggers import Loggers
from kraal.peers import Peers
from kraal.protocol.signature import DEFAULT_ALGORITHM
from web.admission import Admission, Limits
from web.cors import CorsRules
from web.pulse import Pulse
from web.rendered import Rendered

if TYPE_CHECKING:
    from kraal.metrics.oversight import Oversight
    from kraal.plugins.infos import ConfigInfos
    from kraal.plugins.registry import Registry

Validate = Callable[[str, Config], "ConfigInfos"]
"""Checks a config for the plugin that a path names; may block. `ProvidedPlugins.check_for_rest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that a deployment can choose about the REST API."""

    advertised_url: str
    """What others reach this worker by; ends with `/`. Source: RestServer.advertisedUrl."""
    version: str = __version__
    """Kraal's own, for the `Server` header."""
    connect_version: str = "4.3.0"
    """The Kafka Connect whose contract is kept; clients parse it."""
    commit: str = __version__
    distributed: bool = False
    """Whether this worker may be one of a group; a standalone worker takes no internal requests."""
    verification_algorithms: tuple[str, ...] = (DEFAULT_ALGORITHM,)
    """`inter.worker.verification.algorithms`."""
    unsigned_internal: bool = True
    """Whether workers' requests need no signature while their group's protocol has none."""
    basic_auth: BasicAuth | None = None
    """Who may use the API; None: everybody."""
    admin_apart: bool = False
    """The endpoints of administrators are on listeners of their own, or nowhere."""
    cors: CorsRules | None = None
    response_headers: tuple[HeaderRule, ...] = ()
    peer_tls: Callable[[], ssl.SSLContext] | None = None
    """Makes the TLS context for requests to workers; None: they are trusted as the system does."""
    topic_tracking: bool = True
    """`topic.tracking.enable`."""
    topic_reset: bool = True
    """`topic.tracking.allow.reset`."""
    request_timeout_s: float = 90.0
    health_timeout_s: float = 10.0
    max_body_bytes: int = 1_000_000
    """Below what Kafka takes in one record by default (1,048,588), so that what is read can be stored."""
    max_internal_body_bytes: int = 64 * 1024 * 1024
    """Between workers: all task configs of a connector come in one body."""
    limits: Limits = field(default_factory=Limits)
    """What is too much at once."""
    validation_threads: int = 4
    """Plugin code that checks configs may block; at most so many do at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every handler works with."""

    herder: Address
    published: Published
    registry: Registry
    validate: Validate
    settings: Settings
    admission: Admission
    """Of all listeners."""
    pulse: Pulse
    loggers: Loggers = field(default_factory=Loggers)
    """The loggers of this process."""
    oversight: Oversight | None = None
    """What restarts and stalls on this worker; None: nobody says."""
    rendered: Rendered = field(default_factory=Rendered)
    peers: Peers = field(default_factory=Peers)
    """Other workers, for requests that are sent on."""
