"""Project templates for new connectors."""
