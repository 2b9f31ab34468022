"""Settings and dependencies of the REST API."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.runtime.mailbox import Address
from kraal import __version__
from kraal.cluster.views.snapshot import Published
from kraal.config.worker.basic_auth import BasicAuth
from kraal.config.worker.response_headers import HeaderRule
from kraal.core.connect_version import CONNECT_VERSION
from kraal.core.ids import Config
from kraal.core.log_levels import Loggers
from kraal.journal.journal import Journal, disabled_journal
from kraal.peers import Peers
from kraal.protocol.signature import DEFAULT_ALGORITHM
from web.health import HealthCheck
from web.members import LookUp, Members
from web.middleware.admission import Admission, Limits
from web.middleware.cors import CorsRules
from web.middleware.response_cache import ResponseCache
from web.middleware.shared_responses import SharedResponses
from web.streams import Broadcaster

if TYPE_CHECKING:
    from kraal.metrics.progress import ProgressReports
    from kraal.metrics.stalls.detection import StallDetection
    from kraal.plugins.registry import Registry
    from kraal.plugins.validation.infos import ConfigInfos

Validate = Callable[[str, Config], "ConfigInfos"]
"""Validates a config for the plugin in the request path; may block. See `WorkerPlugins.check_for_rest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Configuration of the REST API."""

    advertised_url: str
    """URL at which other workers reach this one, with a trailing `/`. Source: RestServer.advertisedUrl."""
    version: str = __version__
    """Kraal's version, for the `Server` header."""
    connect_version: str = CONNECT_VERSION
    """Version of Kafka Connect whose REST API is implemented. Clients parse the version."""
    commit: str = __version__
    distributed: bool = False
    """Whether this worker may belong to a group; a standalone worker accepts no internal requests."""
    verification_algorithms: tuple[str, ...] = (DEFAULT_ALGORITHM,)
    """`inter.worker.verification.algorithms`."""
    signature_algorithm: str = DEFAULT_ALGORITHM
    """`inter.worker.signature.algorithm`."""
    members: LookUp | None = None
    """Looks up the group members. If None, the members are available only on the leader."""
    allow_unsigned_internal: bool = True
    """Whether to accept unsigned internal requests while the group's protocol has no signatures."""
    basic_auth: BasicAuth | None = None
    """Users of the API; None disables authentication."""
    has_separate_admin: bool = False
    """Whether the admin endpoints have separate listeners or are disabled."""
    cors: CorsRules | None = None
    response_headers: tuple[HeaderRule, ...] = ()
    peer_tls: Callable[[], ssl.SSLContext] | None = None
    """Creates the TLS context for requests to workers; None uses the system's trust store."""
    converters: Mapping[str, str] = field(default_factory=dict)
    """The worker's default converters by config key."""
    ui: bool = True
    """Whether the dashboard is served at `/ui`."""
    ui_read_only: bool = False
    """Whether the dashboard rejects all actions; the API is not affected."""
    topic_tracking: bool = True
    """`topic.tracking.enable`."""
    topic_reset: bool = True
    """`topic.tracking.allow.reset`."""
    start_problem: Callable[[], str | None] = lambda: None
    """Returns the reason and remedy if startup is blocked until an administrator acts, None otherwise."""
    request_timeout_s: float = 90.0
    health_timeout_s: float = 10.0
    max_body_bytes: int = 1_000_000
    """Less than Kafka's default record limit (1,048,588), so that accepted bodies can be stored."""
    max_internal_body_bytes: int = 64 * 1024 * 1024
    """Limit for requests between workers, which send all task configs of a connector in one body."""
    limits: Limits = field(default_factory=Limits)
    """Admission control limits."""
    plugin_threads: int = 4
    """Number of threads for requests that run plugin code, such as validations; plugin code may block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Dependencies of the request handlers."""

    herder: Address
    published: Published
    registry: Registry
    validate: Validate
    settings: Settings
    admission: Admission
    """Shared by all listeners."""
    health_check: HealthCheck
    streams: Broadcaster
    """Shared by all listeners."""
    loggers: Loggers = field(default_factory=Loggers)
    """Loggers of this process."""
    stall_detection: StallDetection | None = None
    """Detects stalls and reports automatic restarts on this worker; None if unavailable."""
    progress: ProgressReports | None = None
    """Metrics of this worker's tasks; None if unavailable."""
    shared: SharedResponses = field(default_factory=SharedResponses)
    journal: Journal = field(default_factory=disabled_journal)
    """Journal of this worker's events."""
    rendered: ResponseCache = field(default_factory=ResponseCache)
    peers: Peers = field(default_factory=Peers)
    """Client for forwarding requests to other workers."""
    members: Members = field(default_factory=Members)
    """Group members. Requests are not sent to any other worker."""
