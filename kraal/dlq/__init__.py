"""`kraal dlq`: show and replay dead letters of Kraal and Java workers, using REST and Kafka."""
