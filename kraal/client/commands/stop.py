"""`kraal stop`: stop connectors."""

from __future__ import annotations

from kraal.client.target_state import target_state_command

stop = target_state_command(
    "stop",
    state="STOPPED",
    done="will stop",
    short_help="Stop connectors and shut down their tasks.",
    help_text=(
        "Stop connectors and shut down their tasks (KIP-875).\n\n"
        "The offsets of stopped connectors can be altered. `kraal resume` starts the connectors again."
    ),
    example="kraal stop orders-source --wait && kraal offsets reset orders-source",
)
