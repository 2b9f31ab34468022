"""Settings of the REST API that follow from a worker's config."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from kraal.config.connector.converters import DEFAULTS
from kraal.config.worker.config import WorkerConfig
from kraal.config.worker.keys import allowed_origins
from web.middleware.admission import Limits
from web.middleware.cors import CorsRules
from web.settings import Settings


def rest_settings(config: WorkerConfig, peer_tls: Callable[[], ssl.SSLContext]) -> Settings:
    """Return the settings that all modes share; `peer_tls` makes the TLS context for requests to other workers."""
    return Settings(
        advertised_url=config.advertised_url,
        basic_auth=config.basic_auth,
        admin_apart=config.admin_listeners is not None,
        ui=config.ui,
        ui_read_only=config.ui_read_only,
        cors=CorsRules.of(allowed_origins(config.cors_origin), config.cors_methods),
        response_headers=config.response_headers,
        peer_tls=peer_tls,
        converters={role: config.raw[role] for role in DEFAULTS if role in config.raw},
        topic_tracking=config.topic_tracking,
        topic_reset=config.topic_tracking_reset,
        limits=Limits(waiting=config.waiting_max, body_bytes=config.bodies_max_bytes),
    )
