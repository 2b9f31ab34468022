"""What a new connector's project is: names made of one name, and files made of templates.

A name is lower-case words with hyphens: it becomes a package's name on an index, a Python package and a class. What it
becomes must hide nothing: no module of Python's, none of Kraal's environment.
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

from kraal.errors import AlreadyExists, BadRequest

Kind = Literal["source", "sink"]
LONGEST: Final = 50
_TEMPLATES: Final = Path(__file__).with_name("templates")
_RESERVED: Final = frozenset({"tests", "test"})


@dataclass(frozen=True, slots=True)
class Names:
    """How one name is written where."""

    project: str
    package: str
    class_name: str

    @classmethod
    def of(cls, name: str, kind: Kind) -> Names:
        """Make them of a name. Raises BadRequest, which says what is allowed."""
        allowed = f"lower-case letters, digits and single hyphens, a letter first, at most {LONGEST} in all: my-orders"
        if len(name) > LONGEST or not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
            raise BadRequest(f"{name!r} is no name for a connector: it has to be {allowed}.")
        package = name.replace("-", "_")
        if package in sys.stdlib_module_names or keyword.iskeyword(package) or package in _RESERVED:
            raise BadRequest(f"{name!r} is no name for a connector: {package} is Python's own.")
        if find_spec(package) is not None:
            raise BadRequest(
                f"{name!r} is no name for a connector: there is a package {package} in Kraal's environment."
            )
        words = "".join(word.capitalize() for word in name.split("-"))
        return cls(name, package, f"{words}{kind.capitalize()}")


def project_files(names: Names, kind: Kind) -> Mapping[str, str]:
    """Return the project's files: path below its directory -> text."""
    values = {
        "project": names.project,
        "package": names.package,
        "class_name": names.class_name,
        "kind": kind,
    }
    places = {
        ".gitignore": "gitignore",
        "README.md": f"readme_{kind}",
        "connector.json": f"config_{kind}",
        "pyproject.toml": "pyproject",
        f"{names.package}/__init__.py": "init",
        f"{names.package}/connector.py": kind,
        "tests/test_connector.py": f"test_{kind}",
    }
    return {
        place: Template((_TEMPLATES / f"{template}.tmpl").read_text(encoding="utf-8")).substitute(values)
        for place, template in places.items()
    }


def write_project(parent: Path, names: Names, kind: Kind) -> Path:
    """Write the project into a new directory; return it. Raises AlreadyExists, BadRequest."""
    directory = parent / names.project
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise AlreadyExists(f"{directory} is there already, and nothing in it was changed.") from None
    except OSError as exc:
        raise BadRequest(f"{directory} cannot be made: {exc.strerror or exc}.") from exc
    for place, text in project_files(names, kind).items():
        file = directory / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return directory
