"""Source tasks in real-time mode, and formats that exist only as streams."""
