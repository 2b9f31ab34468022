"""Java plugins: Connect's own connectors, run by Kafka's `Worker` in a JVM of their own beside Spark's."""
