"""The API for authors of connectors, transforms and converters, and the discovery of their classes."""
