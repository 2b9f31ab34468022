"""Where configs, statuses and offsets are kept: protocols, files, Kafka topics, memory."""
