"""Activity of a connector: its states over time, log lines, events, metrics, topics and dead letters. Pure."""
