"""A worker's membership in its group, as a pure state machine."""
