"""Creates the project of a new connector from templates.

A connector's name consists of lower-case words with hyphens. The names of the project, package and class are derived
from the connector's name, and must not shadow modules of Python or of Kraal's environment.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Final, Literal

from kraal.core.errors import AlreadyExists, BadRequest

Kind = Literal["source", "sink"]
MAX_LENGTH: Final = 50
_TEMPLATES: Final = Path(__file__).with_name("templates")
_RESERVED_NAMES: Final = frozenset({"tests", "test"})


@dataclass(frozen=True, slots=True)
class Names:
    """The names derived from the name of a connector."""

    project: str
    package: str
    class_name: str

    @classmethod
    def of(cls, name: str, kind: Kind) -> Names:
        """Derive the names. Raises BadRequest if the name is invalid."""
        allowed = f"a letter, then lower-case letters, digits and single hyphens (up to {MAX_LENGTH}), as in my-orders"
        if len(name) > MAX_LENGTH or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
            raise BadRequest(f"Invalid connector name {name!r}; expected {allowed}.")
        package = name.replace("-", "_")
        if package in sys.stdlib_module_names or keyword.iskeyword(package) or package in _RESERVED_NAMES:
            raise BadRequest(f"Invalid connector name {name!r}: {package} is reserved in Python.")
        if find_spec(package) is not None:
            raise BadRequest(
                f"Invalid connector name {name!r}: Kraal's environment already contains a package {package}."
            )
        words = "".join(word.capitalize() for word in name.split("-"))
        return cls(name, package, f"{words}{kind.capitalize()}")


def project_files(names: Names, kind: Kind) -> Mapping[str, str]:
    """Return the contents of the project's files by relative path."""
    values = {
        "project": names.project,
        "package": names.package,
        "class_name": names.class_name,
        "kind": kind,
    }
    templates = {
        ".gitignore": "gitignore",
        "README.md": f"readme_{kind}",
        "connector.json": f"config_{kind}",
        "pyproject.toml": "pyproject",
        f"{names.package}/__init__.py": "init",
        f"{names.package}/connector.py": kind,
        "tests/test_connector.py": f"test_{kind}",
    }
    return {
        path: Template((_TEMPLATES / f"{template}.tmpl").read_text(encoding="utf-8")).substitute(values)
        for path, template in templates.items()
    }


def write_project(parent: Path, names: Names, kind: Kind) -> Path:
    """Write the project to a new directory and return it. Raises AlreadyExists, BadRequest."""
    directory = parent / names.project
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise AlreadyExists(f"{directory} already exists; nothing was changed.") from None
    except OSError as exc:
        raise BadRequest(f"Cannot create {directory}: {exc.strerror or exc}.") from exc
    for path, text in project_files(names, kind).items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return directory
