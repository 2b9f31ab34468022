"""Tests that slow regular expressions of users fail only the connector or request that contains them."""

from __future__ import annotations

import pickle
import re
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kraal.config.connector.topic_creation import read_rules
from kraal.config.java_regex import compile_pattern, find_pattern_error, java_regex
from kraal.config.patterns import MAX_TEXT_LENGTH
from kraal.config.providers import EnvVarConfigProvider
from kraal.connectors.mirror.config import MIRROR
from kraal.connectors.mirror.topics import make_topic_filter
from kraal.core.errors import PatternTooSlow
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record
from kraal.transforms.predicates.topic_name_matches import TopicNameMatches
from kraal.transforms.regex_router import RegexRouter
from kraal.transforms.sql.transform import SQL

SLOW_PATTERN = "(a|aa)+X"
TOPIC = "a" * 100 + "-X"
"""A topic that makes Python's `re` backtrack practically forever when matching SLOW_PATTERN."""
TOO_SLOW_ERROR = r"^The regular expression '\(a\|aa\)\+X' took longer than 500 ms on 'a{100}-X'; simplify it$"


def test_other_threads_run_during_matching() -> None:
    pattern, match_ended = compile_pattern(SLOW_PATTERN), threading.Event()

    def match() -> None:
        with pytest.raises(PatternTooSlow, match=TOO_SLOW_ERROR):
            pattern.fullmatch(TOPIC)
        match_ended.set()

    thread = threading.Thread(target=match)
    thread.start()
    iterations = 0
    while not match_ended.wait(0.001):
        iterations += 1
        assert thread.is_alive() or match_ended.is_set()
    thread.join()
    assert iterations > 10


def make_router() -> RegexRouter:
    plugin = RegexRouter()
    plugin.configure({"regex": SLOW_PATTERN, "replacement": "b"})
    return plugin


def make_predicate() -> TopicNameMatches:
    plugin = TopicNameMatches()
    plugin.configure({"pattern": SLOW_PATTERN})
    return plugin


def creation_config() -> dict[str, str]:
    group = {"include": SLOW_PATTERN, "partitions": "1", "replication.factor": "1"}
    default = {"default.partitions": "1", "default.replication.factor": "1"}
    groups = {"groups": "g", **default, **{f"g.{key}": value for key, value in group.items()}}
    return {f"topic.creation.{key}": value for key, value in groups.items()}


def mirror_config(key: str) -> dict[str, str]:
    servers = {f"{side}.cluster.bootstrap.servers": "a:1" for side in ("source", "target")}
    return {"source.cluster.alias": "west", **servers, key: SLOW_PATTERN}


def create_topic() -> object:
    rules = read_rules(creation_config())
    assert rules is not None
    return rules.find_group(TOPIC)


@pytest.mark.parametrize(
    "run_match",
    [
        pytest.param(lambda: make_router().apply(Record(topic=TOPIC)), id="RegexRouter"),
        pytest.param(lambda: make_router().columns(Columns(topic=TOPIC)), id="RegexRouter by columns"),
        pytest.param(lambda: make_predicate().test(Record(topic=TOPIC)), id="TopicNameMatches"),
        pytest.param(lambda: make_predicate().known(Columns(topic=TOPIC)), id="TopicNameMatches by columns"),
        pytest.param(create_topic, id="topic.creation"),
        pytest.param(
            lambda: make_topic_filter(MIRROR.parse(mirror_config("topics"))).includes(TOPIC),
            id="a mirror's topics",
        ),
        pytest.param(
            lambda: make_topic_filter(MIRROR.parse(mirror_config("topics.exclude"))).includes(TOPIC),
            id="topics.exclude",
        ),
        pytest.param(
            lambda: EnvVarConfigProvider({TOPIC: ""}).configure({"allowlist.pattern": SLOW_PATTERN}),
            id="allowlist",
        ),
    ],
)
def test_error_contains_slow_expression(run_match: object) -> None:
    assert callable(run_match)
    with pytest.raises(PatternTooSlow, match=TOO_SLOW_ERROR):
        run_match()


def test_long_text_is_rejected() -> None:
    with pytest.raises(PatternTooSlow, match="a text of 10001 characters; at most 10000"):
        compile_pattern(".*").fullmatch("a" * (MAX_TEXT_LENGTH + 1))


def test_patterns_and_transforms_can_be_pickled() -> None:
    plugin = RegexRouter()
    plugin.configure({"regex": "(?<n>a+)b*", "replacement": "${n}"})
    assert plugin.apply(Record(topic="aab")).topic == "aa"
    unpickled_plugin = pickle.loads(pickle.dumps(plugin))  # noqa: S301 - pickled here
    assert unpickled_plugin.apply(Record(topic="aabb")).topic == "aa"
    assert unpickled_plugin.apply(Record(topic="c")).topic == "c"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a" * 10_001, "it has 10001 characters; at most 10000 are allowed"),
        ("a{1001}", "its repetitions have 1001 parts when expanded; at most 1000 are allowed"),
        ("((a{1,255}){1,255}){1,255}", "have 16581375 parts"),
        ("(?:[ab]{0,40}|x){30,}", "have 1302 parts"),
        ("a{60000}" * 1000, "have 60000000 parts"),
        ("(" * 2_000 + ")" * 2_000, "nested too deeply"),
    ],
)
def test_expressions_above_limits_are_rejected(text: str, reason: str) -> None:
    for message in (
        find_pattern_error(text),
        java_regex("k", text),
    ):
        assert message is not None
        assert reason in message
    with pytest.raises(ValueError, match=reason):
        compile_pattern(text)


@pytest.mark.parametrize(
    "text", ["a{1000}", r"[a-z]{1,63}(\.[a-z]{1,63}){1,10}", ".{1,249}", "|".join(map(str, range(2_000)))]
)
def test_common_patterns_are_allowed(text: str) -> None:
    assert find_pattern_error(text) is None


# -- comparison with `re` and Java -----------------------------------------------------------------------------


@settings(
    max_examples=300,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    derandomize=True,
)
@given(st.text("(?:a|b)*+{1,2}[^-]\\w.$", max_size=10), st.text("ab1{,}.-", max_size=6))
def test_engine_matches_like_python(text: str, topic: str) -> None:
    if find_pattern_error(text) is None:
        actual, expected = compile_pattern(text).fullmatch(topic), re.compile(text, re.ASCII).fullmatch(topic)
        assert (actual is None) == (expected is None)
        if actual and expected:
            assert actual.groups() == expected.groups()


@pytest.mark.parametrize(
    ("text", "match", "non_match"),
    [
        (r"\d+", "12", "a"),
        (r"[\d]{2}", "12", "1"),
        (r"a\x2Eb", "a.b", "axb"),
        (r"\0101\x{62}", "Ab", "ab"),
        (r"[\0101\x{62}]+", "bA", "01"),
        ("(?:a|b)", "a", "c"),
        ("(?i)abc", "ABC", "x"),
        ("(?!_).*", "ab", "_a"),
        (r"\Qa.b\E", "a.b", "axb"),
        (r"\p{Alpha}+", "ab", "1"),
        (r"(?<n>a|b)\k<n>", "bb", "ab"),
        ("a++b", "aab", "a"),
        (r"\Aab\z", "ab", "abc"),
    ],
)
def test_java_syntax_matches_like_java(text: str, match: str, non_match: str) -> None:
    assert compile_pattern(text).fullmatch(match)
    assert not compile_pattern(text).fullmatch(non_match)


@pytest.mark.parametrize("text", ["a{e<=1}", "a{i}", "{a}", "a{", "x{,}", "x{,2}", "(?x)a{ 2}"])
def test_brace_without_count_is_rejected_like_java(text: str) -> None:
    assert "Illegal repetition" in (find_pattern_error(text) or "")


@pytest.mark.parametrize("text", ["[{]", r"\{"])
def test_escaped_brace_is_literal(text: str) -> None:
    assert compile_pattern(text).fullmatch("{")


def test_sql_like_matches_without_backtracking() -> None:
    transform = SQL()
    transform.configure({"expressions": "a LIKE 'x%a%b_%c\\%%' AS found", "of": "value"})

    def is_match(text: str) -> object:
        return transform.apply(Record(topic="t", value={"a": text})).value["found"]

    assert is_match("xab1c%")
    assert is_match("x--a--b1\n--c%--")
    assert not is_match("xabc%")
    assert not is_match("ab1c%")
    start_s = time.thread_time()
    assert not is_match("x" + "ab" * 50_000)
    assert time.thread_time() - start_s < 2.0
