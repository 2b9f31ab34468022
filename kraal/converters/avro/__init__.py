"""Avro: its schemas, what they are in Connect, and values to bytes and back."""
