"""Membership of one group member as a pure state machine."""
