"""What authors of connectors, transforms and converters import, and how their classes are found."""
