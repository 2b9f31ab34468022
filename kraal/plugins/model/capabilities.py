"""Check whether a capability that a plugin class declares applies to a given object."""

from __future__ import annotations


def declares(plugin: object, capability: str, *methods: str) -> bool:
    """Return whether the class that implements the methods also declares the capability.

    False for a subclass that overrides one of the methods and inherits the declaration: the declaration may not
    apply to the new method.
    """
    for cls in type(plugin).__mro__:
        attributes = vars(cls)
        if capability in attributes:
            return True
        if any(method in attributes for method in methods):
            return False
    return False
