"""Dead letters of Kraal and Java workers: read from Kafka, chosen by topic and connector, and written back."""
