"""Tests that hostile texts, which were found by fuzzing, are processed quickly.

`re` holds the GIL, so a regular expression that backtracks excessively blocks all threads of the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kraal.config.connector.sink import check_topics
from kraal.config.hidden import find_credentials
from kraal.config.secret_keys import secret_values
from kraal.config.values import split_list
from kraal.config.variables import Variable, find_variables, has_variable, substitute
from kraal.core.secrets import Secrets
from kraal.plugins.versions import allows, mismatch

CPU_LIMIT_S = 2.0
"""CPU time limit, far above the current times and far below the times without input limits."""


@contextmanager
def assert_fast() -> Iterator[None]:
    start_s = time.thread_time()
    yield
    assert time.thread_time() - start_s < CPU_LIMIT_S


@pytest.mark.parametrize("text", ["${a:" * 20_000, "${" * 40_000, "${a:b:" * 20_000, "${a:b}" * 20_000])
def test_hostile_variables_are_scanned_quickly(text: str) -> None:
    with assert_fast():
        assert substitute(text, {Variable("a", "", "b"): "${a:b}"}) == text
        assert has_variable(text) is text.endswith("}")
        assert len(list(find_variables({"key": text}))) == text.count("}")


def test_variable_ends_at_first_brace_and_requires_colon() -> None:
    variables = find_variables({"key": "${a}${b:c} ${d:${e:f:g}} }${:} ${h:i"})
    assert list(variables) == [Variable("b", "", "c"), Variable("d", "${e", "f:g"), Variable("", "", "")]


def test_long_lists_are_split_quickly() -> None:
    with assert_fast():
        assert split_list("a" + " " * 100_000 + "b") == ("a" + " " * 100_000 + "b",)
    assert split_list(" a ,\tb\n,, c d ") == ("a", "b", "", "c d")


@pytest.mark.parametrize(
    "text", ["[" + " " * 20_000, "(" + " " * 20_000 + ",", "[" + "a" * 20_000, "9" * 20_000]
)
def test_hostile_version_ranges_are_parsed_quickly(text: str) -> None:
    with assert_fast():
        assert mismatch("p", text, ("1.0",)) is not None


def test_versions_with_long_numbers_are_compared_numerically() -> None:
    assert allows("[ 1.9 , 1.10 ]", "1.09")
    assert not allows("[1.9,1.10]", "1.11")
    assert allows("(" + "9" * 5_000 + ",)", "1" + "0" * 5_000)
    assert allows("1.0.0", "1")


@pytest.mark.parametrize("text", ["a" * 50_000, "password" * 6_000, "password=" * 6_000, "password " * 6_000])
def test_hostile_secrets_are_scanned_quickly(text: str) -> None:
    with assert_fast():
        Secrets().add(text)


@pytest.mark.parametrize(
    "text", ["://", "://a:", "authorization ", "authorization:", "password=", "authorization: basic "]
)
def test_hostile_credentials_are_scanned_quickly(text: str) -> None:
    with assert_fast():
        find_credentials(text * 5_000 + " " * 20_000)


def test_keys_with_many_dots_are_classified_quickly() -> None:
    with assert_fast():
        assert secret_values({"k." * 40_000 + "ssl.key.password": "hunter2"}) == ["hunter2"]


def make_topic_check(pattern: str, topic: str) -> Callable[[], list[tuple[str, str]]]:
    return lambda: check_topics({"topics.regex": pattern, "errors.deadletterqueue.topic.name": topic})


@pytest.mark.parametrize(
    ("pattern", "topic", "is_rejected"),
    [
        ("(a+)+b", "a" * 60 + "b", True),
        ("a.*", "abc", True),
        ("a|b", "ab", False),
        ("a*", "a" * 250, False),
        ("a?" * 50_000, "a" * 26, False),
        ("(?=a)a", "a", True),
        (r"\Qa.b\E", "a.b", True),
        ("[", "a", False),
    ],
)
def test_dead_letter_topic_check_is_fast(pattern: str, topic: str, *, is_rejected: bool) -> None:
    with assert_fast():
        errors = make_topic_check(pattern, topic)()
    assert [key for key, _ in errors] == (["topics.regex"] if is_rejected else [])


def test_slow_topics_regex_is_reported_for_its_key() -> None:
    ((key, error),) = make_topic_check("(a|aa)+b", "a" * 60 + "c")()
    assert key == "topics.regex"
    assert "took longer than 500 ms" in error
