"""Avro converter: parses Avro schemas, maps them to and from Connect schemas, and encodes values.

Implements https://avro.apache.org/docs/1.12.0/specification/ and the pages "Avro serializer" and "Kafka Connect
converters" of the Confluent documentation: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-avro.html
and https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""
