"""What counts as a secret, and where it does not appear any more."""

from __future__ import annotations

import json
import logging
import sys
from urllib.parse import quote

import pytest

from kraal.core.logging import JsonLines, Scrub, TextLines
from kraal.core.secrets import MAX_SECRETS, Secrets, names_secret, secrets


def hiding(*values: str) -> Secrets:
    known = Secrets()
    known.add(*values)
    return known


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "connection.password",
        "ssl.key.password",
        "aws.secret.access.key",
        "sasl.jaas.config",
        "API_TOKEN",
        "basic.auth.credentials",
        "key.converter.basic.auth.password",
        "config.providers.vault.param.token",
        "ssh.passphrase",
        "db.passwd",
        "db.pass",
        "PWD",
        "http.headers.authorization",
        "value.converter.basic.auth.user.info",
    ],
)
def test_a_name_sounds_like_a_secret(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "name",
        "topics",
        "connector.class",
        "key.converter",
        "key.converter.schemas.enable",
        "transforms.key.type",
        "transforms.toKey.fields",
        "ssl.keystore.location",
        "ssl.keymanager.algorithm",
        "inter.worker.key.ttl.ms",
        "sasl.oauthbearer.token.endpoint.url",
        "message.key.columns",
        "secret.name",
        "http.authorization.type",
        "bypass.nulls",
        "pass.through",
        "user.info.topic",
    ],
)
def test_a_name_that_is_only_about_one_does_not(name: str) -> None:
    assert not names_secret(name)


def test_a_long_secret_is_hidden_everywhere() -> None:
    assert hiding("hunter2hunter2").scrub("xhunter2hunter2y") == "x[hidden]y"


def test_a_value_of_four_to_seven_characters_is_hidden_as_a_word_only() -> None:
    known = hiding("abcd", "s3cr3t!")
    assert known.scrub("abcd, (abcd) abcde xabcd s3cr3t! s3cr3t!x") == (
        "[hidden], ([hidden]) abcde xabcd [hidden] s3cr3t!x"
    )


@pytest.mark.parametrize("value", ["", " ", "abc", "\n", "true", "False", "localhost", "INFO", "hidden"])
def test_a_short_or_everyday_value_blanks_nothing(value: str) -> None:
    text = "a log line: true abc INFO localhost [hidden] "
    assert hiding(value).scrub(text) == text


def test_the_longer_of_two_wins() -> None:
    assert hiding("password1", "password1password2").scrub("password1password2") == "[hidden]"


def test_a_hidden_value_is_not_hidden_twice() -> None:
    known = hiding("long enough value")
    once = known.scrub("a long enough value")
    assert known.scrub(once) == once == "a [hidden]"


@pytest.mark.parametrize("written", [repr, json.dumps, lambda text: quote(text, safe="")])
def test_a_value_is_found_also_where_it_is_escaped(written: object) -> None:
    value = 'pass "wörd"\\with/all\tof it'
    assert callable(written)
    assert "rd" not in hiding(value).scrub(str(written(value))).replace("[hidden]", "")


def test_lines_of_a_key_are_hidden_one_by_one() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nxyz=\n-----END PRIVATE KEY-----\n"
    known = hiding(key)
    assert known.scrub(f"read {key} end") == "read [hidden]\n end"
    assert known.scrub("line 2 is MIIEvQIBADANBgkq, line 3 xyz=") == "line 2 is [hidden], line 3 xyz="


def test_the_password_inside_of_a_jaas_entry_is_one_by_itself() -> None:
    jaas = 'a.b.PlainLoginModule required username="kraal-user" password="hunter2";'
    assert hiding(jaas).scrub("kraal-user has hunter2") == "kraal-user has [hidden]"


def test_the_least_recently_used_values_are_dropped() -> None:
    known = Secrets()
    known.add("unused value", "scrubbed value", "repeated value")
    known.add(*(f"value number {n}" for n in range(MAX_SECRETS - 3)))
    assert known.scrub("a scrubbed value") == "a [hidden]"
    known.add("repeated value")
    known.add("one more value")
    text = "unused value, scrubbed value, repeated value, one more value, value number 0"
    assert known.scrub(text) == "unused value, [hidden], [hidden], [hidden], [hidden]"


def test_pinned_values_outlast_any_number_of_others() -> None:
    known = Secrets()
    known.pin("the worker's password")
    known.add(*(f"value number {n}" for n in range(MAX_SECRETS + 1)))
    assert known.scrub("the worker's password, value number 7;") == "[hidden], [hidden];"


def test_new_values_are_hidden_as_soon_as_they_are_known() -> None:
    known = hiding("first value")
    known.add(None, "second value")
    assert known.scrub("first value second value") == "[hidden] [hidden]"
    known.forget()
    assert known.scrub("first value") == "first value"


def record(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("kraal.x", logging.INFO, "f", 1, message, args, info)


def failed(text: str) -> BaseException:
    try:
        raise ValueError(text)
    except ValueError:
        error = sys.exc_info()[1]
        assert error is not None
        return error


@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
def test_no_line_of_the_log_holds_a_secret(lines: logging.Formatter) -> None:
    value = 'hunter2"hunter2'
    made = record("it is %s for %r", value, {"p": value}, error=failed(f"not {value}"))
    made.stack_info = f"Stack (most recent call last):\n  {value}"
    assert Scrub(hiding(value)).filter(made)
    text = lines.format(made)
    assert "hunter2" not in text
    assert text.count("[hidden]") == 4
    assert "ValueError: not [hidden]" in text


def test_a_line_with_arguments_that_do_not_fit_is_written_without_them() -> None:
    made = record("two %s %s", "hunter2hunter2")
    Scrub(hiding("hunter2hunter2")).filter(made)
    assert made.getMessage() == "two %s %s (its arguments do not fit)"


def test_a_line_without_secrets_is_as_it_was() -> None:
    made = record("%d of %s", 3, "four")
    Scrub(hiding("hunter2hunter2")).filter(made)
    assert made.getMessage() == "3 of four"


def test_the_process_has_one_registry() -> None:
    secrets.add("of this process")
    made = record("a secret of this process")
    Scrub().filter(made)
    assert made.getMessage() == "a secret [hidden]"
