"""The version of Kafka Connect that this worker reports in `GET /` and for Kafka's own plugins."""

from __future__ import annotations

from typing import Final

CONNECT_VERSION: Final = "4.4.0"
"""The version of Kafka's commit 1156b2752aaa28ea, which produced the files in `tests/golden`."""
