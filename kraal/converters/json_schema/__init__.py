"""JSON Schema converter: maps schemas in both directions and encodes values.

Implements https://json-schema.org/draft-07 and the pages "JSON Schema serializer" and "Kafka Connect converters" of the
Confluent documentation: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-json.html
and https://docs.confluent.io/platform/current/schema-registry/connect.html.
"""
