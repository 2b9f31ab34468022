"""Workers, clusters, engines and groups in one thread and virtual time."""
