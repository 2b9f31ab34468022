"""What a connector did: its states over time, log lines, events, numbers, topics and dead letters. Pure."""
