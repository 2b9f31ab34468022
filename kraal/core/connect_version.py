"""The version of Kafka Connect that this worker reports: in `GET /`, and of Kafka's own plugins."""

from __future__ import annotations

from typing import Final

CONNECT_VERSION: Final = "4.4.0"
"""The version at Kafka's commit 1156b2752aaa28ea; recordings of it are in `tests/golden`."""
