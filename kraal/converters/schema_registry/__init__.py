"""Client, wire format and subject names shared by the converters with a schema registry."""
