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
from kraal.journal.journal import Journal, disabled
from kraal.peers import Peers
from kraal.protocol.signature import DEFAULT_ALGORITHM
from web.health import HealthCheck
from web.members import LookUp, Members
from web.middleware.admission import Admission, Limits
from web.middleware.cors import CorsRules
from web.middleware.response_cache import ResponseCache
from web.middleware.shared_answers import SharedAnswers
from web.streams import Broadcaster

if TYPE_CHECKING:
    from kraal.metrics.progress import ProgressReports
    from kraal.metrics.stall_detection import StallDetection
    from kraal.plugins.registry import Registry
    from kraal.plugins.validation.infos import ConfigInfos

Validate = Callable[[str, Config], "ConfigInfos"]
"""Checks a config for the plugin in a path; may block. `ProvidedPlugins.check_for_rest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the REST API that a deployment can choose."""

    advertised_url: str
    """URL under which other workers reach this one; ends with `/`. Source: RestServer.advertisedUrl."""
    version: str = __version__
    """Kraal's version, for the `Server` header."""
    connect_version: str = CONNECT_VERSION
    """Kafka Connect version whose contract applies; clients parse it."""
    commit: str = __version__
    distributed: bool = False
    """Whether this worker may belong to a group; a standalone worker accepts no internal requests."""
    verification_algorithms: tuple[str, ...] = (DEFAULT_ALGORITHM,)
    """`inter.worker.verification.algorithms`."""
    signature_algorithm: str = DEFAULT_ALGORITHM
    """`inter.worker.signature.algorithm`."""
    members: LookUp | None = None
    """Looks up the members of the group; None: only a leader has them."""
    unsigned_internal: bool = True
    """Whether workers' requests need no signature while their group's protocol has none."""
    basic_auth: BasicAuth | None = None
    """Users of the API; None: no authentication."""
    admin_apart: bool = False
    """Admin endpoints have their own listeners, or are disabled."""
    cors: CorsRules | None = None
    response_headers: tuple[HeaderRule, ...] = ()
    peer_tls: Callable[[], ssl.SSLContext] | None = None
    """Creates the TLS context for requests to workers; None: the system's trust store applies."""
    converters: Mapping[str, str] = field(default_factory=dict)
    """The worker's converters by their keys, for connectors that configure none."""
    ui: bool = True
    """Whether the dashboard is served at `/ui`."""
    ui_read_only: bool = False
    """Whether the dashboard refuses all actions; the API does not."""
    topic_tracking: bool = True
    """`topic.tracking.enable`."""
    topic_reset: bool = True
    """`topic.tracking.allow.reset`."""
    start_problem: Callable[[], str | None] = lambda: None
    """Returns the reason and remedy if the worker cannot start until an administrator acts; otherwise None."""
    request_timeout_s: float = 90.0
    health_timeout_s: float = 10.0
    max_body_bytes: int = 1_000_000
    """Less than Kafka's default record limit (1,048,588), so that accepted bodies can be stored."""
    max_internal_body_bytes: int = 64 * 1024 * 1024
    """Between workers: all task configs of a connector are sent in one body."""
    limits: Limits = field(default_factory=Limits)
    """Limits of admission control."""
    validation_threads: int = 4
    """Maximum number of concurrent config validations by plugin code, which may block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Dependencies of all handlers."""

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
    """The loggers of this process."""
    stall_detection: StallDetection | None = None
    """Restarts and stalls on this worker; None: not available."""
    progress: ProgressReports | None = None
    """Metrics of this worker's tasks; None: not available."""
    shared: SharedAnswers = field(default_factory=SharedAnswers)
    journal: Journal = field(default_factory=disabled)
    """Events on this worker."""
    rendered: ResponseCache = field(default_factory=ResponseCache)
    peers: Peers = field(default_factory=Peers)
    """Client for forwarding requests to other workers."""
    members: Members = field(default_factory=Members)
    """Members of the group, the only workers that receive requests."""
