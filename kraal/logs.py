"""Logs of a worker process: text, one line an event, to standard error."""

from __future__ import annotations

import logging


def log_to_stderr(level: int = logging.INFO) -> None:
    """Log our own packages from `level` on, others from WARNING on."""
    logging.basicConfig(
        level=logging.WARNING, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)", force=True
    )
    for name in ("actors", "web", "kraal"):
        logging.getLogger(name).setLevel(level)
