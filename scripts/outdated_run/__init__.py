"""Lists pinned versions that are behind, and what stops them."""
