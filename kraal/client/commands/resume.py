"""`kraal resume`: resume connectors."""

from __future__ import annotations

from kraal.client.target_state import target_state_command

resume = target_state_command(
    "resume",
    state="RUNNING",
    done="will run",
    short_help="Resume paused or stopped connectors.",
    help_text="Resume paused or stopped connectors.",
    example="kraal resume --all --wait",
)
