"""A real Kafka broker to develop and test against: its jars, its Java and its process."""
