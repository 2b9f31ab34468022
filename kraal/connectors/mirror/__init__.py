"""MirrorSource: topics of another Kafka cluster."""
