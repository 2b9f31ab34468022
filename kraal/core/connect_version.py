"""The version of Kafka Connect that this worker reports: in `GET /`, and of Kafka's own plugins."""

from __future__ import annotations

from typing import Final

CONNECT_VERSION: Final = "4.3.0"
