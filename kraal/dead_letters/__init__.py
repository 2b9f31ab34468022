"""Dead letters of Kraal and Java workers: reading from Kafka, selection by topic and connector, and replay."""
