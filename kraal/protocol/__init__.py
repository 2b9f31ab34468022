"""Encoding and decoding of the group protocol and of records in the internal topics."""
