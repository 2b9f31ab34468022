"""REST API: parse a request, ask an actor, render its answer. No decisions, no Kafka, no Spark."""
