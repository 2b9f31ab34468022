"""Shrinks installed packages by the files that no worker uses: `slim.py LIST SITE-PACKAGES`.

The list has one rule per line; `#` starts a comment. A rule without matches is an error, so that the list stays
consistent with the packages.

    remove PATTERN …             files and directories, relative to SITE-PACKAGES
    trim JAR MEMBER …            members of the jars that match the first pattern
    strip PATTERN …              symbols of shared libraries, with the program `strip`

A rule with the prefix `x86_64:` or `aarch64:` applies only to that machine. This script runs during the build
of an image, so it must not import packages.
"""

from __future__ import annotations

import fnmatch
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("remove", "trim", "strip")
MACHINES = ("x86_64", "aarch64")


class SlimError(Exception):
    """The list cannot be applied; the message names the rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of the list."""

    command: str
    patterns: tuple[str, ...]


def parse(text: str, machine: str) -> Iterator[Rule]:
    """Yield the rules for a machine. Raises SlimError for a line that is not a rule."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        rule_machine, words = (
            (words[0].rstrip(":"), words[1:]) if words[0].endswith(":") else (machine, words)
        )
        min_words = 3 if words[:1] == ["trim"] else 2
        if len(words) < min_words or words[0] not in COMMANDS or rule_machine not in {machine, *MACHINES}:
            raise SlimError(f"Invalid line {number}; expected remove, trim or strip with patterns: {line}")
        if rule_machine == machine:
            yield Rule(words[0], tuple(words[1:]))


def check(rule: Rule, site: Path) -> None:
    """Check a rule without changing files. Raises SlimError if one of its patterns matches nothing."""
    if rule.command != "trim":
        for pattern in rule.patterns:
            matching_paths(site, pattern)
        return
    for jar in matching_paths(site, rule.patterns[0]):
        with zipfile.ZipFile(jar) as file:
            check_members(jar, file.namelist(), rule.patterns[1:])


def apply(rule: Rule, site: Path) -> None:
    """Apply one rule. Raises SlimError if one of its patterns matches nothing."""
    if rule.command == "trim":
        for jar in matching_paths(site, rule.patterns[0]):
            trim(jar, rule.patterns[1:])
        return
    for pattern in rule.patterns:
        for path in matching_paths(site, pattern):
            if rule.command == "strip":
                subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)  # noqa: S607 - its path depends on the system
            elif path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def matching_paths(site: Path, pattern: str) -> list[Path]:
    """Return the paths that match a pattern. Raises SlimError if there are none."""
    paths = sorted(site.glob(pattern))
    if not paths:
        raise SlimError(f"Nothing in {site} matches '{pattern}'; change the rule or remove it.")
    return paths


def trim(jar: Path, patterns: Sequence[str]) -> None:
    """Rewrite a jar without the matching members. Raises SlimError if a pattern matches none."""
    trimmed_jar = jar.with_name(f".{jar.name}")
    with zipfile.ZipFile(jar) as source:
        check_members(jar, source.namelist(), patterns)
        with zipfile.ZipFile(trimmed_jar, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as target:
            for member in source.infolist():
                if not any(fnmatch.fnmatchcase(member.filename, pattern) for pattern in patterns):
                    target.writestr(member, source.read(member), zipfile.ZIP_DEFLATED)
    trimmed_jar.chmod(jar.stat().st_mode)
    trimmed_jar.replace(jar)


def check_members(jar: Path, names: Sequence[str], patterns: Sequence[str]) -> None:
    """Raise SlimError if a pattern matches none of a jar's members."""
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise SlimError(f"No member of {jar.name} matches '{pattern}'; change the rule or remove it.")


def main(arguments: Sequence[str]) -> int:
    """Apply a list to a directory; return the exit code."""
    list_file, site = map(Path, arguments)
    try:
        for rule in parse(list_file.read_text(encoding="utf-8"), platform.machine()):
            apply(rule, site)
    except SlimError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
