"""Reads the connector configs in `examples/`, so that tests run the configs that users copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kraal.config.properties_file import read_properties

FOLDER = Path(__file__).parents[3] / "examples"


def example(name: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Return an example's config without `name`, with some of its values replaced."""
    config = read_properties(FOLDER / f"{name}.properties", "example")
    del config["name"]
    unknown = changes.keys() - config.keys()
    assert not unknown, f"{name} has no {unknown}"
    return {**config, **changes}
