"""Tests that secrets in configs and messages are hidden."""

from __future__ import annotations

import pytest

from kraal.config.hidden import hide, list_masked_keys, scrub


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("connection.password", "hunter2", "[hidden]"),
        ("producer.override.sasl.jaas.config", "x", "[hidden]"),
        ("aws.secret", "x", "[hidden]"),
        ("connection.password", "${file:/run/db.properties:password}", "${file:/run/db.properties:password}"),
        ("connection.password", "x${file:/f:p}", "[hidden]"),
        ("connection.password", "", ""),
        ("connection.password", None, None),
        ("key.converter", "StringConverter", "StringConverter"),
        ("pin", "1234", "[hidden]"),
        ("connection.url", "jdbc:x://me:hunter2@db/x", "jdbc:x://me:[hidden]@db/x"),
        (
            "connection.url",
            "jdbc:x://db?user=me&password=hunter2&a=b",
            "jdbc:x://db?user=me&password=[hidden]&a=b",
        ),
        ("jdbc", "jdbc:x;password=${file:/f:p};user=me", "jdbc:x;password=${file:/f:p};user=me"),
        (
            "azure",
            "AccountName=a;AccountKey=hunter2==;Suffix=b",
            "AccountName=a;AccountKey=[hidden];Suffix=b",
        ),
        (
            "bus",
            "SharedAccessKeyName=n;SharedAccessKey=hunter2",
            "SharedAccessKeyName=n;SharedAccessKey=[hidden]",
        ),
        ("sas", "https://a/c?sv=1&sig=hunter2&se=2", "https://a/c?sv=1&sig=[hidden]&se=2"),
        (
            "headers",
            "A: b, Authorization: Bearer hunter2, C: d",
            "A: b, Authorization: Bearer [hidden], C: d",
        ),
        ("headers", "Authorization=hunter2", "Authorization=[hidden]"),
        ("words", "design=round, signature, the author", "design=round, signature, the author"),
    ],
)
def test_hide_replaces_secrets(key: str, value: str | None, expected: str | None) -> None:
    assert hide({key: value}, declared={"pin"}) == {key: expected}


def test_scrub_removes_secrets_from_message() -> None:
    config = {"a.password": "ab", "b.password": "abc", "topic": "abcd", "pin": "99"}
    text = "Invalid value abc for b.password, ab for a.password, 99, topic abcd"
    assert scrub(text, config, {"pin"}) == (
        "Invalid value [hidden] for b.password, [hidden] for a.password, [hidden], topic [hidden]d"
    )


def test_scrub_removes_credentials_and_trimmed_secrets() -> None:
    config = {"url": "pg://me:s3cret@db/x", "jdbc": "jdbc:x;password=abc", "b.password": " padded\n"}
    text = "Invalid value pg://me:s3cret@db/x for url, jdbc:x;password=abc for jdbc, padded for b.password"
    assert scrub(text, config) == (
        "Invalid value pg://me:[hidden]@db/x for url, jdbc:x;password=[hidden] for jdbc, [hidden] for b.password"
    )


def test_placeholders_are_detected() -> None:
    assert list_masked_keys({"a": "[hidden]", "b": "x", "c": "://me:[hidden]@db", "d": None}) == ["a", "c"]
