"""Tests for logger levels, compared with `Loggers` of Kafka 4.3.0."""

from __future__ import annotations

import logging
from importlib.util import find_spec

import pytest

from kraal.core.log_levels import ALL, OFF, TRACE, LoggerLevel, Loggers, level_name, parse_level
from kraal.core.renamed_loggers import RENAMED


class Clock:
    """A wall clock that tests set."""

    now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


class Tree:
    """A separate logger hierarchy. Only root (WARNING) and `a` (INFO) have levels; `a.x` is a placeholder."""

    def __init__(self) -> None:
        self.root = logging.RootLogger(logging.WARNING)
        self.manager = logging.Manager(self.root)
        self.root.manager = self.manager
        for name in ("a", "a.b", "a.b.c", "ab", "z", "a.x.y"):
            self.manager.getLogger(name)
        self.manager.getLogger("a").setLevel(logging.INFO)
        self.clock = Clock()
        self.loggers = Loggers(self.root, self.clock)

    def levels(self) -> dict[str, str]:
        return {name: level.level for name, level in self.loggers.all_levels().items()}


@pytest.fixture
def tree() -> Tree:
    return Tree()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("OFF", OFF),
        ("FATAL", 50),
        ("ERROR", 40),
        ("WARN", 30),
        ("INFO", 20),
        ("DEBUG", 10),
        ("TRACE", TRACE),
        ("ALL", ALL),
    ],
)
def test_levels_are_converted_to_and_from_log4j_names(name: str, number: int) -> None:
    assert (parse_level(name), parse_level(f" {name.lower()} ")) == (number, number)
    assert level_name(number) == name


@pytest.mark.parametrize("text", ["", "WARNING", "CRITICAL", "10", "verbose", "NOTSET"])
def test_unknown_level_is_rejected(text: str) -> None:
    assert parse_level(text) is None


@pytest.mark.parametrize(
    ("number", "name"), [(0, "ALL"), (2, "TRACE"), (7, "DEBUG"), (25, "WARN"), (45, "FATAL"), (60, "OFF")]
)
def test_intermediate_level_has_name_of_lowest_logged_level(number: int, name: str) -> None:
    assert level_name(number) == name


def test_all_levels_returns_effective_levels(tree: Tree) -> None:
    assert list(tree.loggers.all_levels().items()) == [
        ("a", LoggerLevel("INFO", None)),
        ("a.b", LoggerLevel("INFO", None)),
        ("a.b.c", LoggerLevel("INFO", None)),
        ("a.x.y", LoggerLevel("INFO", None)),
        ("ab", LoggerLevel("WARN", None)),
        ("root", LoggerLevel("WARN", None)),
        ("z", LoggerLevel("WARN", None)),
    ]


def test_loggers_that_are_off_are_not_listed(tree: Tree) -> None:
    tree.loggers.set_level("a.b", "off")
    assert "a.b" not in tree.levels()
    assert "a.b.c" not in tree.levels()
    assert tree.loggers.level("a.b") == LoggerLevel("OFF", 1_000)


def test_level_is_looked_up_by_name(tree: Tree) -> None:
    assert tree.loggers.level("a.b") == LoggerLevel("INFO", None)
    assert [tree.loggers.level(name) for name in ("root", "ROOT")] == [LoggerLevel("WARN", None)] * 2
    assert [tree.loggers.level(name) for name in ("A", "a.x", "nobody", "a.")] == [None] * 4


def test_level_does_not_create_logger(tree: Tree) -> None:
    tree.loggers.level("nobody")
    assert "nobody" not in tree.levels()


def test_set_level_applies_to_children(tree: Tree) -> None:
    assert tree.loggers.set_level("a", "DEBUG") == ["a", "a.b", "a.b.c", "a.x.y"]
    assert tree.levels() == {
        "a": "DEBUG",
        "a.b": "DEBUG",
        "a.b.c": "DEBUG",
        "a.x.y": "DEBUG",
        "ab": "WARN",
        "root": "WARN",
        "z": "WARN",
    }


def test_set_level_overrides_levels_of_children(tree: Tree) -> None:
    tree.loggers.set_level("a.b.c", "ERROR")
    assert tree.loggers.set_level("a", "TRACE") == ["a", "a.b", "a.b.c", "a.x.y"]
    assert tree.levels()["a.b.c"] == "TRACE"


def test_namespace_is_any_prefix_of_a_name(tree: Tree) -> None:
    """The prefix `a` also matches `ab`, although `ab` is not a child of `a`."""
    tree.manager.getLogger("ab").setLevel(logging.ERROR)
    assert "ab" in tree.loggers.set_level("a", "DEBUG")
    assert tree.levels()["ab"] == "DEBUG"


@pytest.mark.parametrize("name", ["root", "Root"])
def test_root_level_applies_to_all_loggers(tree: Tree, name: str) -> None:
    assert tree.loggers.set_level(name, "ERROR") == ["a", "a.b", "a.b.c", "a.x.y", "ab", "root", "z"]
    assert set(tree.levels().values()) == {"ERROR"}


def test_only_changed_loggers_are_returned_with_a_new_timestamp(tree: Tree) -> None:
    tree.clock.now_ms = 2_000
    assert tree.loggers.set_level("a.b", "INFO") == []
    assert tree.loggers.level("a.b") == LoggerLevel("INFO", None)
    assert tree.loggers.set_level("a.b", "WARN") == ["a.b", "a.b.c"]
    tree.clock.now_ms = 3_000
    assert tree.loggers.set_level("a", "WARN") == ["a", "a.x.y"]
    assert tree.loggers.level("a") == LoggerLevel("WARN", 3_000)
    assert tree.loggers.level("a.b.c") == LoggerLevel("WARN", 2_000)


def test_set_level_creates_unknown_logger(tree: Tree) -> None:
    assert tree.loggers.set_level("org.apache.kafka", "debug") == ["org.apache.kafka"]
    assert tree.loggers.level("org.apache.kafka") == LoggerLevel("DEBUG", 1_000)
    assert tree.loggers.set_level("org.apache.kafka.connect", "WARN") == ["org.apache.kafka.connect"]


def test_unknown_level_is_ignored(tree: Tree, caplog: pytest.LogCaptureFixture) -> None:
    levels_before = tree.levels()
    with caplog.at_level(logging.WARNING):
        assert tree.loggers.set_level("a", "loud") == []
    assert tree.levels() == levels_before
    assert [record.getMessage() for record in caplog.records] == [
        "Ignoring request to set invalid level 'loud' for namespace a"
    ]


def test_level_affects_logged_lines(tree: Tree) -> None:
    logger = tree.manager.getLogger("a.b")
    assert [logger.isEnabledFor(level) for level in (logging.INFO, logging.DEBUG)] == [True, False]
    tree.loggers.set_level("a", "DEBUG")
    assert logger.isEnabledFor(logging.DEBUG)
    tree.loggers.set_level("root", "OFF")
    assert not logger.isEnabledFor(logging.CRITICAL)


def test_default_root_is_pythons_root_logger() -> None:
    logger = logging.getLogger("kraal.tests.loggers")
    level_before = logger.level
    try:
        assert Loggers().set_level("kraal.tests.loggers", "FATAL") == ["kraal.tests.loggers"]
        assert logger.getEffectiveLevel() == logging.CRITICAL
        level = Loggers().level("kraal.tests.loggers")
        assert level == LoggerLevel("FATAL", None), "timestamps are not shared between instances"
    finally:
        logger.setLevel(level_before)


def test_former_logger_name_is_resolved() -> None:
    root = logging.RootLogger(logging.INFO)
    root.manager = logging.Manager(root)
    root.manager.getLogger("kraal.engine.task_run")
    loggers = Loggers(root)
    assert loggers.set_level("kraal.spark", "DEBUG") == ["kraal.engine", "kraal.engine.task_run"]
    assert loggers.level("kraal.spark.run") == loggers.level("kraal.engine.task_run")
    assert (level := loggers.level("kraal.spark.run")) is not None
    assert level.level == "DEBUG"


@pytest.mark.parametrize("name", sorted(RENAMED.values()))
def test_new_logger_names_are_modules_or_packages(name: str) -> None:
    assert find_spec(name) is not None
