"""Stalls: facts about progress, and the decisions about them."""
