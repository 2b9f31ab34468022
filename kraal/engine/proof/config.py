"""Settings of a connector that do not apply to its proof."""

from __future__ import annotations

from typing import Final

WITHOUT_SIDE_EFFECTS: Final = {"errors.log.enable": "false", "errors.deadletterqueue.topic.name": ""}
"""Config keys of a proof, which neither logs errors nor writes dead letters."""
