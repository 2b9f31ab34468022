"""The keys common to all connectors."""
