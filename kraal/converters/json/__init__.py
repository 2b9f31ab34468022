"""JsonConverter: JSON with and without schemas."""
