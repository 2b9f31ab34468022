"""`kraal dlq`: dead letters seen and replayed, with REST and with Kafka; also those of Java's workers."""
