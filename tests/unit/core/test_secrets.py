"""Tests for the detection and removal of secrets."""

from __future__ import annotations

import json
import logging
import sys
from urllib.parse import quote

import pytest

from kraal.core.logging import JsonFormatter, SecretsFilter, TextFormatter
from kraal.core.secrets import MAX_SECRETS, Secrets, is_secret_name, secrets


def make_secrets(*values: str) -> Secrets:
    scrubber = Secrets()
    scrubber.add(*values)
    return scrubber


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
def test_secret_names_are_detected(name: str) -> None:
    assert is_secret_name(name)


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
def test_names_of_other_settings_are_not_secret(name: str) -> None:
    assert not is_secret_name(name)


def test_long_secret_is_hidden_anywhere() -> None:
    assert make_secrets("hunter2hunter2").scrub("xhunter2hunter2y") == "x[hidden]y"


def test_short_secret_is_hidden_only_as_word() -> None:
    scrubber = make_secrets("abcd", "s3cr3t!")
    assert scrubber.scrub("abcd, (abcd) abcde xabcd s3cr3t! s3cr3t!x") == (
        "[hidden], ([hidden]) abcde xabcd [hidden] s3cr3t!x"
    )


@pytest.mark.parametrize("value", ["", " ", "abc", "\n", "true", "False", "localhost", "INFO", "hidden"])
def test_very_short_or_common_value_is_not_hidden(value: str) -> None:
    text = "a log line: true abc INFO localhost [hidden] "
    assert make_secrets(value).scrub(text) == text


def test_longer_secret_is_hidden_first() -> None:
    assert make_secrets("password1", "password1password2").scrub("password1password2") == "[hidden]"


def test_scrubbing_a_scrubbed_text_has_no_effect() -> None:
    scrubber = make_secrets("long enough value")
    scrubbed_text = scrubber.scrub("a long enough value")
    assert scrubber.scrub(scrubbed_text) == scrubbed_text == "a [hidden]"


@pytest.mark.parametrize("escape", [repr, json.dumps, lambda text: quote(text, safe="")])
def test_escaped_secret_is_hidden(escape: object) -> None:
    value = 'pass "wörd"\\with/all\tof it'
    assert callable(escape)
    assert "rd" not in make_secrets(value).scrub(str(escape(value))).replace("[hidden]", "")


def test_lines_of_secret_are_hidden_separately() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nxyz=\n-----END PRIVATE KEY-----\n"
    scrubber = make_secrets(key)
    assert scrubber.scrub(f"read {key} end") == "read [hidden]\n end"
    assert scrubber.scrub("line 2 is MIIEvQIBADANBgkq, line 3 xyz=") == "line 2 is [hidden], line 3 xyz="


def test_password_in_jaas_config_is_hidden_separately() -> None:
    jaas = 'a.b.PlainLoginModule required username="kraal-user" password="hunter2";'
    assert make_secrets(jaas).scrub("kraal-user has hunter2") == "kraal-user has [hidden]"


def test_least_recently_used_values_are_dropped() -> None:
    scrubber = Secrets()
    scrubber.add("unused value", "scrubbed value", "repeated value")
    scrubber.add(*(f"value number {n}" for n in range(MAX_SECRETS - 3)))
    assert scrubber.scrub("a scrubbed value") == "a [hidden]"
    scrubber.add("repeated value")
    scrubber.add("one more value")
    text = "unused value, scrubbed value, repeated value, one more value, value number 0"
    assert scrubber.scrub(text) == "unused value, [hidden], [hidden], [hidden], [hidden]"


def test_pinned_values_are_never_dropped() -> None:
    scrubber = Secrets()
    scrubber.pin("the worker's password")
    scrubber.add(*(f"value number {n}" for n in range(MAX_SECRETS + 1)))
    assert scrubber.scrub("the worker's password, value number 7;") == "[hidden], [hidden];"


def test_new_secrets_are_hidden_immediately() -> None:
    scrubber = make_secrets("first value")
    scrubber.add(None, "second value")
    assert scrubber.scrub("first value second value") == "[hidden] [hidden]"
    scrubber.clear()
    assert scrubber.scrub("first value") == "first value"


def make_record(message: str, *args: object, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("kraal.x", logging.INFO, "f", 1, message, args, info)


def make_error(text: str) -> BaseException:
    try:
        raise ValueError(text)
    except ValueError:
        error = sys.exc_info()[1]
        assert error is not None
        return error


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_log_lines_contain_no_secrets(formatter: logging.Formatter) -> None:
    value = 'hunter2"hunter2'
    log_record = make_record("it is %s for %r", value, {"p": value}, error=make_error(f"not {value}"))
    log_record.stack_info = f"Stack (most recent call last):\n  {value}"
    assert SecretsFilter(make_secrets(value)).filter(log_record)
    text = formatter.format(log_record)
    assert "hunter2" not in text
    assert text.count("[hidden]") == 4
    assert "ValueError: not [hidden]" in text


def test_log_line_with_invalid_arguments_is_logged_without_arguments() -> None:
    log_record = make_record("two %s %s", "hunter2hunter2")
    SecretsFilter(make_secrets("hunter2hunter2")).filter(log_record)
    assert log_record.getMessage() == "two %s %s (its arguments do not match)"


def test_log_line_without_secrets_is_unchanged() -> None:
    log_record = make_record("%d of %s", 3, "four")
    SecretsFilter(make_secrets("hunter2hunter2")).filter(log_record)
    assert log_record.getMessage() == "3 of four"


def test_process_has_one_registry() -> None:
    secrets.add("of this process")
    log_record = make_record("a secret of this process")
    SecretsFilter().filter(log_record)
    assert log_record.getMessage() == "a secret [hidden]"
