"""Protobuf converter: parses .proto texts, maps them to and from Connect schemas, and encodes values.

Implements https://protobuf.dev/reference/protobuf/proto3-spec, https://protobuf.dev/programming-guides/encoding and the
pages "Protobuf serializer" and "Kafka Connect converters" of the Confluent documentation:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-protobuf.html
and https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""
