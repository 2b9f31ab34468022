"""`kraal pause`: pause connectors."""

from __future__ import annotations

from kraal.client.target_state import target_state_command

pause = target_state_command(
    "pause",
    state="PAUSED",
    done="will pause",
    short_help="Pause connectors.",
    help_text=(
        "Pause connectors: their tasks stay allocated but do no work (KIP-52).\n\n"
        "Connectors stay paused when workers restart."
    ),
    example="kraal pause orders-source orders-sink --wait",
)
