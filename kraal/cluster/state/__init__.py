"""State of a cluster, replayed from the config topic and the status topic."""
