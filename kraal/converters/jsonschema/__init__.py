"""JSON with JSON Schema: schemas both ways, and values."""
