"""Bytes to values and back: what stands on the wire and in the internal topics."""
