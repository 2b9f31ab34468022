"""Kafka clients: internal topics, group membership, offsets, transactions."""
