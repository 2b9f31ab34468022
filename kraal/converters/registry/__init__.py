"""What the converters that have a schema registry share: its client, Confluent's wire format, names of subjects."""
