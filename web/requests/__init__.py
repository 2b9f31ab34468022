"""Request parsing, and calls to the herder and to other workers."""
