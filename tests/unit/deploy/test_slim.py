"""Tests for the rules that select files to omit from the image, and that Kraal imports none of these files."""

from __future__ import annotations

import re
import sysconfig
import zipfile
from pathlib import Path

import pytest

from scripts.image.slim import MACHINES, Rule, SlimError, apply, check, main, parse

ROOT = Path(__file__).parents[3]
RULES = (ROOT / "deploy/image/slim.txt").read_text(encoding="utf-8")


def create_files(site: Path, *names: str) -> None:
    for name in names:
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(name, encoding="utf-8")


def test_parse_returns_rules_and_skips_comments() -> None:
    text = "# why\nremove a b*  # c\n\ntrim j.jar x y\nx86_64: strip l.so\naarch64: remove z\n"
    common_rules = [Rule("remove", ("a", "b*")), Rule("trim", ("j.jar", "x", "y"))]
    assert list(parse(text, "x86_64")) == [*common_rules, Rule("strip", ("l.so",))]
    assert list(parse(text, "aarch64")) == [*common_rules, Rule("remove", ("z",))]


@pytest.mark.parametrize("line", ["delete a", "remove", "trim only.jar", "s390: remove a", "x86_64:"])
def test_invalid_line_is_rejected(line: str) -> None:
    with pytest.raises(SlimError, match="Invalid line 1"):
        list(parse(line, "x86_64"))


def test_remove_rule_deletes_files_and_directories(tmp_path: Path) -> None:
    create_files(tmp_path, "a/b/c", "a/d.py", "e.so", "f.so.1")
    apply(Rule("remove", ("a/b", "*.so*")), tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == ["a/d.py"]


def test_pattern_without_a_match_is_an_error(tmp_path: Path) -> None:
    create_files(tmp_path, "a")
    with pytest.raises(SlimError, match=r"matches 'b\*'"):
        apply(Rule("remove", ("a", "b*")), tmp_path)


def test_trim_rule_deletes_members_of_jars(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "j-1.jar", "w") as jar:
        for name in ("win/x.dll", "linux/x.so", "C.class"):
            jar.writestr(name, name)
    apply(Rule("trim", ("j-*.jar", "*.dll")), tmp_path)
    with zipfile.ZipFile(tmp_path / "j-1.jar") as jar:
        assert jar.namelist() == ["linux/x.so", "C.class"]
        assert jar.read("C.class") == b"C.class"
    with pytest.raises(SlimError, match=r"No member of j-1\.jar matches '\*\.dll'"):
        apply(Rule("trim", ("j-*.jar", "*.dll")), tmp_path)


def test_check_does_not_change_files(tmp_path: Path) -> None:
    create_files(tmp_path, "a")
    with zipfile.ZipFile(tmp_path / "j-1.jar", "w") as jar:
        jar.writestr("x.so", "x")
    content_before = (tmp_path / "j-1.jar").read_bytes()
    for valid_rule in (Rule("remove", ("a",)), Rule("strip", ("a",)), Rule("trim", ("j-*.jar", "*.so"))):
        check(valid_rule, tmp_path)
    for invalid_rule in (
        Rule("remove", ("a", "b")),
        Rule("strip", ("b",)),
        Rule("trim", ("j-*.jar", "*.so", "*.dll")),
    ):
        with pytest.raises(SlimError, match="change the rule or remove it"):
            check(invalid_rule, tmp_path)
    assert (tmp_path / "a").exists()
    assert (tmp_path / "j-1.jar").read_bytes() == content_before


@pytest.mark.parametrize("machine", MACHINES)
def test_every_rule_matches_installed_files(machine: str) -> None:
    """The tests run with the locked packages of the image."""
    site = Path(sysconfig.get_path("platlib"))
    for rule in parse(RULES, machine):
        check(rule, site)


def test_main_prints_the_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list").write_text("remove missing\n", encoding="utf-8")
    assert main([str(tmp_path / "list"), str(tmp_path)]) == 1
    assert "missing" in capsys.readouterr().err


@pytest.mark.parametrize("machine", MACHINES)
def test_kraal_imports_no_removed_package(machine: str) -> None:
    rules = list(parse(RULES, machine))
    removed_modules = {
        pattern.replace("/", ".") for rule in rules for pattern in rule.patterns if "*" not in pattern
    }
    assert {"pyspark.ml", "pyspark.pandas"} <= removed_modules
    import_pattern = re.compile(r"^\s*(?:from|import) ([\w.]+)", re.MULTILINE)
    for folder in ("actors", "kraal", "web"):
        for path in (ROOT / folder).rglob("*.py"):
            names = import_pattern.findall(path.read_text(encoding="utf-8"))
            assert not [
                name
                for name in names
                for module in removed_modules
                if name == module or name.startswith(f"{module}.")
            ], path


def test_libraries_of_the_current_machine_are_kept() -> None:
    for machine, kept_pattern in (("x86_64", "*-linux64.so"), ("aarch64", "*-linux-aarch64.so")):
        assert kept_pattern not in [pattern for rule in parse(RULES, machine) for pattern in rule.patterns]
