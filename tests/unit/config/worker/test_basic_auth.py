"""Tests for basic authentication of the REST API: Connect's extension, its JAAS file and its credentials file."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth, read_basic_auth
from kraal.core.errors import ConfigInvalid

CLASS = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
EXTENSION_CONFIG = {"rest.extension.classes": CLASS}
AUTH = BasicAuth({"ann": Password("s:ecret"), "bob": Password(""), "zoë": Password("ü")})


def basic_header(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def write_files(directory: Path, users: str = "ann=secret\n", jaas: str | None = None) -> Path:
    (directory / "users.properties").write_text(users)
    path = directory / "jaas.conf"
    text = 'KafkaConnect {{\n  {module} required\n  file="{at}/users.properties";\n}};\n'
    path.write_text((text if jaas is None else jaas).format(module=MODULE, at=directory))
    return path


def find_error(raw: dict[str, str], environment: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigInvalid) as raised:
        read_basic_auth(raw, environment or {})
    (error,) = raised.value.errors
    return error


def test_authentication_is_disabled_without_extension() -> None:
    assert read_basic_auth({}, {"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}) is None
    assert read_basic_auth({"rest.extension.classes": " "}, {}) is None


@pytest.mark.parametrize("name", [CLASS, "BasicAuthSecurityRestExtension"])
def test_jaas_file_is_configured_in_worker_config(tmp_path: Path, name: str) -> None:
    raw = {"rest.extension.classes": name, "java.security.auth.login.config": str(write_files(tmp_path))}
    auth = read_basic_auth(raw, {})
    assert auth is not None
    assert auth.users == {"ann": Password("secret")}
    assert "secret" not in repr(auth)


@pytest.mark.parametrize(
    "opts",
    [
        "-Djava.security.auth.login.config={}",
        "-Xmx1g -Djava.security.auth.login.config=={} -Dx=y",
        '-Djava.security.auth.login.config="{}"',
        "'-Djava.security.auth.login.config={}'",
    ],
)
def test_jaas_file_is_configured_in_kafka_opts(tmp_path: Path, opts: str) -> None:
    auth = read_basic_auth(EXTENSION_CONFIG, {"KAFKA_OPTS": opts.format(write_files(tmp_path))})
    assert auth is not None
    assert set(auth.users) == {"ann"}


def test_entry_other_is_the_fallback(tmp_path: Path) -> None:
    jaas = (
        "KafkaClient {{ a.ScramLoginModule required password='x'; }};\n"
        "other {{ {module} optional file='{at}/users.properties'; }};"
    )
    raw = {**EXTENSION_CONFIG, "java.security.auth.login.config": str(write_files(tmp_path, jaas=jaas))}
    assert read_basic_auth(raw, {}) is not None


@pytest.mark.parametrize(
    ("header", "is_admitted"),
    [
        (basic_header("ann:s:ecret"), True),
        (basic_header("ann:s:ecret").replace("Basic", "bASIC"), True),
        (basic_header("ann:s:ecret").rstrip("="), True),
        (basic_header("bob:"), True),
        (basic_header("zoë:ü"), True),
        (basic_header("ann:"), False),
        (basic_header("ann:s"), False),
        (basic_header("ann"), False),
        (basic_header(":s:ecret"), False),
        (basic_header("Ann:s:ecret"), False),
        (basic_header("eve:"), False),
        ("Bearer " + basic_header("ann:s:ecret")[6:], False),
        ("Basic", False),
        ("Basic \xff\xfe", False),
        ("Basic a", False),
        ("", False),
        (None, False),
    ],
)
def test_authenticate_checks_user_and_password(header: str | None, *, is_admitted: bool) -> None:
    assert AUTH.authenticate(header) is is_admitted


@pytest.mark.parametrize(
    ("users", "jaas", "reason"),
    [
        pytest.param("", None, "users.properties' is empty", id="no users"),
        pytest.param(
            "ann=sec\\u00ret\n",
            None,
            "users.properties' is not a properties file",
            id="invalid properties file",
        ),
        pytest.param("a=b", "Other {{ }};", "the file has no entry KafkaConnect", id="no entry"),
        pytest.param(
            "a=b",
            "KafkaConnect {{ }};",
            "must have exactly one login module, PropertyFileLoginModule, but has none",
            id="no module",
        ),
        pytest.param(
            "a=b",
            "KafkaConnect {{ com.LdapLoginModule required; }};",
            "but has LdapLoginModule",
            id="another module",
        ),
        pytest.param(
            "a=b", "KafkaConnect {{ {module} required; }};", "requires the option file", id="no file"
        ),
        pytest.param(
            "a=b",
            'KafkaConnect {{ {module} required file="${{HOME}}/x"; }};',
            "are not supported",
            id="a variable",
        ),
        pytest.param(
            "a=b",
            'KafkaConnect {{ {module} required file="{at}/none"; }};',
            "there is no such file",
            id="no such file",
        ),
        pytest.param(
            "a=b",
            'KafkaConnect {{ {module} required file="x";',
            "entry KafkaConnect is not closed",
            id="unclosed entry",
        ),
        pytest.param("a=b", "KafkaConnect", "entry 1 is invalid", id="no braces"),
        pytest.param("a=b", "KafkaConnect {{ {module} file=x; }};", "an invalid login module", id="no flag"),
        pytest.param(
            "a=b",
            "KafkaConnect {{ {module} required file=x; }}",
            "a semicolon must follow",
            id="no semicolon",
        ),
    ],
)
def test_invalid_setting_aborts_startup(tmp_path: Path, users: str, jaas: str | None, reason: str) -> None:
    path = write_files(tmp_path, users, jaas)
    for raw, environment in (
        ({"java.security.auth.login.config": str(path)}, {}),
        ({}, {"KAFKA_OPTS": f"-Djava.security.auth.login.config={path}"}),
    ):
        error = find_error({**EXTENSION_CONFIG, **raw}, environment)
        assert reason in error
        assert "java.security.auth.login.config" in error
        assert "ret" not in error.replace("returned", "")


def test_missing_jaas_file_setting_is_an_error() -> None:
    assert find_error(EXTENSION_CONFIG, {"KAFKA_OPTS": "-Xmx1g"}) == (
        "Invalid value BasicAuthSecurityRestExtension for configuration rest.extension.classes: it requires a JAAS "
        "file: set java.security.auth.login.config, or "
        "KAFKA_OPTS=-Djava.security.auth.login.config=FILE in the environment."
    )


def test_other_extensions_are_rejected() -> None:
    error = find_error({"rest.extension.classes": f"{CLASS},io.acme.Guard"})
    assert error.startswith(
        "Invalid value io.acme.Guard for configuration rest.extension.classes: Class io.acme.Guard could not be found."
    )
