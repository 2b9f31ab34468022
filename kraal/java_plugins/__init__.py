"""Java plugins, which Kafka's `Worker` runs in JVMs separate from Spark's."""
