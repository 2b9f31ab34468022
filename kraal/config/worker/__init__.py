"""A worker's config: standalone and distributed workers, listeners, TLS."""
