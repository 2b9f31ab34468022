"""The engine's reads from and writes to Kafka."""
