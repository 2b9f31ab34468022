"""Commands of the client: a module for each, with the command's name, imported when the command is used."""

from __future__ import annotations

from pkgutil import iter_modules

from kraal.client.lazy import Lazy

COMMANDS = {module.name: Lazy(f"{__name__}.{module.name}", module.name) for module in iter_modules(__path__)}
"""Commands by name."""
