"""Storage of configs, statuses and offsets: protocols, files, Kafka topics, memory."""
