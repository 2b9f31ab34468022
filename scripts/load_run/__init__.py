"""Load that is more than a worker can do at once, and what becomes of it."""
