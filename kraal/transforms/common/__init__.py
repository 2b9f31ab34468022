"""Base classes and helpers of the transforms."""
