"""Tests for Java's inline flags and nested character classes. The expected matches come from Java 17."""

from __future__ import annotations

from typing import Final

import pytest

from kraal.config.java_regex import compile_pattern, java_regex

NAMES: Final = "a b c d e A B C 1 - _ & ] ^ ab aB AB Ab bB cB CB abc aBc aBC abC ABc aa aA ac def .- b1"
MATCHES: Final = (
    # The elements of NAMES for which Matcher.matches returns true (OpenJDK 17.0.15).
    (r"a(?i)b", "ab aB"),
    (r"a(?i)b|c", "c C ab aB"),
    (r"(a(?i)b)c", "abc aBc"),
    (r"(?:a(?i)b|c)B", "cB CB"),
    (r"a(?i)b(?-i)c", "abc aBc"),
    (r"(?i)a(?-i:b)c", "abc abC"),
    (r"(?i:a)b", "ab Ab"),
    (r"(?i)(a)\1", "aa aA"),
    (r"(?i)[a-c]+", "a b c A B C ab aB AB Ab bB cB CB abc aBc aBC abC ABc aa aA ac"),
    (r"(?i)[^a-z]+", "1 - _ & ] ^ .-"),
    (r"(?i)\p{Lower}+", "a b c d e A B C ab aB AB Ab bB cB CB abc aBc aBC abC ABc aa aA ac def"),
    (r"(?i)[^\p{Lu}]+", "1 - _ & ] ^ .-"),
    (r"(?x) a b # comment", "ab"),
    (r"a(?x) [ b ] \ ", ""),
    (r"(?s).", "a b c d e A B C 1 - _ & ] ^"),
    (r"a(?=(?i)B).", "ab aB"),
    (r"[a-z[0-9]]+", "a b c d e 1 ab abc aa ac def b1"),
    (r"[a-c[1[A-C]]]+", "a b c A B C 1 ab aB AB Ab bB cB CB abc aBc aBC abC ABc aa aA ac b1"),
    (r"[^a-z[0-9]]", "A B C - _ & ] ^"),
    (r"[^[a-z]]", "A B C 1 - _ & ] ^"),
    (r"[[^a-z][a]]", "a A B C 1 - _ & ] ^"),
    (r"[^[^a-z]]+", "a b c d e ab abc aa ac def"),
    (r"[a-z&&[^aeiou]]+", "b c d"),
    (r"[a-z&&[def]]+", "d e def"),
    (r"[a-z&&def]+", "d e def"),
    (r"[^a-z&&[b]]", "a c d e A B C 1 - _ & ] ^"),
    (r"[^a-z&&b]", "a c d e A B C 1 - _ & ] ^"),
    (r"[a-z&&[^b]&&[^c]]", "a d e"),
    (r"[a-z&&[b][c]]", "b c"),
    (r"[ab&&[bc]d]", "b"),
    (r"[a&&[b]&]", "a &"),
    (r"[a-z&&]", "a b c d e"),
    (r"[&&a]", "a"),
    (r"[a&b]", "a b &"),
    (r"[a-z&&^a]", "a"),
    (r"[\w&&[^\d_]]+", "a b c d e A B C ab aB AB Ab bB cB CB abc aBc aBC abC ABc aa aA ac def"),
    (r"[\p{Alnum}&&\P{Upper}]+", "a b c d e 1 ab abc aa ac def b1"),
    (r"[\w&&\D]+", "a b c d e A B C _ ab aB AB Ab bB cB CB abc aBc aBC abC ABc aa aA ac def"),
    (r"(?i)[a-z&&[^b]]+", "a c d e A C aa aA ac def"),
    (r"[a-c&&b-d&&[^c]]", "b"),
    (r"[]a]", "a ]"),
    (r"[^]a]", "b c d e A B C 1 - _ & ^"),
    (r"[a-]", "a -"),
    (r"[\Qa]-\E]+", "a - ] aa"),
    (r"[a\]]+", "a ] aa"),
    (r"[\0101\x{62}]+", "b A Ab"),
    (r"\Q.-\E", ".-"),
    (r"\cA?a", "a"),
)


@pytest.mark.parametrize(("text", "names"), MATCHES)
def test_regex_matches_same_names_as_java(text: str, names: str) -> None:
    pattern = compile_pattern(text)
    assert [name for name in NAMES.split() if pattern.fullmatch(name)] == names.split()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r"a(?i)*", "Dangling meta character '*' at position 5"),
        (r"(?U)a", "the group (?U is not supported; flags are i, m, s, d, u and x at position 0"),
        (r"a(?P<n>b)", "the group (?P is not supported; flags are i, m, s, d, u and x at position 1"),
        (r"a[b&&[c]", "unterminated character set at position 1"),
        (r"[&&]", "an intersection (&&) has nothing on one side at position 0"),
        (r"[a-c&&\p{IsGreek}]", r"the set of characters \p{IsGreek} is not supported at position 6"),
        (r"[c-a]", "Illegal character range c-a at position 1"),
        (r"[\y]", r"the escape \y is not supported at position 1"),
        (r"a\b{g}", r"the escape \b{g} is not supported at position 1"),
        (r"a\x4", r"the escape \x has no valid number at position 1"),
        ("[" * 200 + "a" + "]" * 200, "sets are nested too deeply at position 101"),
        (r"(?i)a)b", "unbalanced parenthesis"),
    ],
)
def test_unsupported_regex_is_rejected_with_key_and_construct(text: str, reason: str) -> None:
    assert java_regex("topics.regex", text) == (
        f"Invalid value {text} for configuration topics.regex: Invalid regex: {reason}"
    )


def test_inline_flag_applies_until_end_of_group() -> None:
    pattern = compile_pattern("(a(?i)b|c)d")
    assert [name for name in ("aBd", "Cd", "CD", "Abd") if pattern.fullmatch(name)] == ["aBd", "Cd"]


def test_long_case_insensitive_regex_is_within_limit() -> None:
    assert compile_pattern("(?i)" + "a" * 200).fullmatch("aA" * 100)
    assert compile_pattern("(?i)" + "|".join(map("name{}".format, range(1_000)))).fullmatch("NAME999")
