"""Tests that the names and parameters of public classes and functions, on which plugins depend, are unchanged.

`public_api.txt` has one line for each public function, method and field. After an intended change, replace the file
with the lines that the failed test prints, and describe the change in CHANGELOG.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import EnumType
from pathlib import Path
from types import ModuleType

import kraal.testing
from kraal.plugins import api

PUBLIC_API = Path(__file__).parent / "public_api.txt"


def describe_module(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        yield from describe(f"{module.__name__}.{name}", getattr(module, name))


def describe(name: str, member: object) -> Iterator[str]:
    """Yield a line for a function or property, or lines for a class and its public members."""
    if isinstance(member, type):
        yield f"{name}({', '.join(parameters(member))})"
        for attribute in sorted(attributes(member)):
            yield from describe(f"{name}.{attribute}", inspect.getattr_static(member, attribute))
    elif isinstance(member, staticmethod | classmethod):
        yield f"{name}({', '.join(parameters(member.__func__))})"
    elif inspect.isfunction(member):
        yield f"{name}({', '.join(parameters(member))})"
    else:
        yield name


def attributes(cls: type) -> set[str]:
    """Return the public attributes of a class that Kraal defines."""
    return {
        attribute
        for base in cls.__mro__
        if base.__module__.startswith("kraal.")
        for attribute in vars(base)
        if not attribute.startswith("_")
    }


def parameters(function: Callable[..., object]) -> list[str]:
    """Return the names of the parameters with their stars, or an empty list for enums and plain exceptions."""
    if isinstance(function, EnumType):
        return []
    try:
        signature = inspect.signature(function)
    except ValueError:  # an exception class that inherits `__init__`
        return []
    bare_parameters = [p.replace(annotation=p.empty, default=p.empty) for p in signature.parameters.values()]
    return [str(parameter) for parameter in bare_parameters]


def test_public_names_and_parameters_are_unchanged() -> None:
    lines = [*describe_module(api), *describe_module(kraal.testing)]
    assert lines == PUBLIC_API.read_text("utf-8").splitlines()
