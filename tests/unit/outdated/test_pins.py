"""Parsing pins from files of the repository."""

from __future__ import annotations

import pytest

from scripts.outdated_run.__main__ import JAVASCRIPT, ROOT
from scripts.outdated_run.pins import Pin, javascript_pins, maven_pins, python_pins

LOCK = """\
# made by uv
Py_Yaml==6.0.3 ; python_full_version < '3.13' \\
    --hash=sha256:00
    # via mypy==1
numpy==2.4.6
"""


def test_python_pins_have_canonical_names_and_versions() -> None:
    assert python_pins(LOCK, "a.lock") == [
        Pin("python", "numpy", "2.4.6", "a.lock"),
        Pin("python", "py-yaml", "6.0.3", "a.lock"),
    ]


def test_maven_pins_have_modules_with_their_group() -> None:
    assert maven_pins({"x": ("org:a:1", "org:b:tar.gz:plugin:2.Final")}) == [
        Pin("maven", "org:a", "1", "x"),
        Pin("maven", "org:b", "2.Final", "x"),
    ]


@pytest.mark.parametrize(
    ("file", "names"),
    list(zip(JAVASCRIPT, [{"htmx.org", "uplot"}, {"axe-core"}, {"@sparticuz/chromium"}], strict=True)),
)
def test_javascript_pins_have_npm_packages(file: str, names: set[str]) -> None:
    assert {pin.name for pin in javascript_pins((ROOT / file).read_text("utf-8"), file)} == names
