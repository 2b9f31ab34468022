"""Checks whether a capability that a plugin class declares applies to an object."""

from __future__ import annotations


def declares(plugin: object, capability: str, *methods: str) -> bool:
    """Return `class_declares` for the class of an object."""
    return class_declares(type(plugin), capability, *methods)


def class_declares(plugin_class: type, capability: str, *methods: str) -> bool:
    """Return whether the class that implements the methods also declares the capability.

    Return False if a subclass overrides one of the methods but inherits the declaration, which may not apply to the
    new method.
    """
    for cls in plugin_class.__mro__:
        attributes = vars(cls)
        if capability in attributes:
            return True
        if any(method in attributes for method in methods):
            return False
    return False
