"""Connect's values: their Java classes, string representations and logical types."""
