"""Proofs of Debezium's connectors, which are Java plugins: what their topics and tables must contain."""
