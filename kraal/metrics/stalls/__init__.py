"""Stall detection: facts about the progress of instances, and the decisions based on them."""
