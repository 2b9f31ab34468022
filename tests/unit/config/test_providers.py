"""Tests for the built-in config providers. Their names, parameters and errors must match Kafka's Java providers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kraal.config.provider import ConfigProvider
from kraal.config.providers import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider
from kraal.core.errors import BadRequest, ProviderFailed


@pytest.fixture
def properties_file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("password=hünter2\nuser = kraal\nempty=\nescaped=\\u0041\nlong=a\\\n  b\n", "utf-8")
    return path


@pytest.fixture
def secrets_directory(tmp_path: Path) -> Path:
    path = tmp_path / "secrets"
    (path / "deeper").mkdir(parents=True)
    (path / "password").write_bytes(b"line 1\nline 2\n")
    (path / "..data").write_text("hidden by its name alone")
    (path / "broken").write_bytes(b"a\xffb")
    (path / "link").symlink_to(path / "password")
    (path / "deeper" / "password").write_text("not this one")
    return path


def test_file_provider_returns_existing_keys(properties_file: Path) -> None:
    values = FileConfigProvider().get(str(properties_file), ["password", "empty", "escaped", "long", "none"])
    assert values.data == {"password": "hünter2", "empty": "", "escaped": "A", "long": "ab"}
    assert values.ttl_ms is None


def test_file_provider_returns_no_keys_for_empty_path() -> None:
    assert FileConfigProvider().get("", ["password"]).data == {}


@pytest.mark.parametrize("content", [None, b"\xff=\xff", b"a=\\u12"])
def test_unreadable_file_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.properties"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProviderFailed) as caught:
        FileConfigProvider().get(str(path), ["a"])
    assert str(caught.value) == f"Could not read properties from file {path}"


def test_directory_provider_returns_file_contents(secrets_directory: Path) -> None:
    keys = [
        "password",
        "link",
        "..data",
        "broken",
        "deeper",
        "none",
        "deeper/password",
        "../secrets.properties",
    ]
    assert DirectoryConfigProvider().get(str(secrets_directory), keys).data == {
        "password": "line 1\nline 2\n",
        "link": "line 1\nline 2\n",
        "..data": "hidden by its name alone",
        "broken": "a\ufffdb",
    }
    assert DirectoryConfigProvider().get("", ["password"]).data == {}


def test_directory_provider_warns_about_path_of_file(
    properties_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert DirectoryConfigProvider().get(str(properties_file), ["password"]).data == {}
    assert [record.getMessage() for record in caplog.records] == [
        f"The path {properties_file} is not a directory"
    ]


def test_unreadable_file_in_directory_is_an_error(
    secrets_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ProviderFailed) as caught:
        DirectoryConfigProvider().get(str(secrets_directory), ["password"])
    expected = f"Could not read file {secrets_directory / 'password'} for property password"
    assert str(caught.value) == expected


@pytest.mark.parametrize("provider_class", [FileConfigProvider, DirectoryConfigProvider])
def test_path_outside_allowed_paths_returns_no_keys(
    provider_class: type[ConfigProvider],
    secrets_directory: Path,
    properties_file: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = provider_class()
    provider.configure({"allowed.paths": str(secrets_directory / "deeper")})
    for path in (
        secrets_directory,
        properties_file,
        f"{secrets_directory}/deeper/..",
        f"{secrets_directory}/deeper-not",
    ):
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            assert provider.get(str(path), ["password", "user"]).data == {}
        assert [record.getMessage() for record in caplog.records] == [
            f"The path {path} is not allowed to be accessed"
        ]


def test_path_below_allowed_path_is_read(secrets_directory: Path, properties_file: Path) -> None:
    file_provider, directory_provider = FileConfigProvider(), DirectoryConfigProvider()
    for provider in (file_provider, directory_provider):
        provider.configure({"allowed.paths": f"{secrets_directory / 'deeper'},{properties_file.parent}/."})
    assert file_provider.get(f"{secrets_directory}/../{properties_file.name}", ["user"]).data == {
        "user": "kraal"
    }
    assert directory_provider.get(str(secrets_directory / "deeper"), ["password"]).data == {
        "password": "not this one"
    }


def test_links_are_resolved_before_checking_allowed_paths(
    secrets_directory: Path, properties_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Source: AllowedPaths.parseUntrustedPath, which resolves links since Kafka 4.4.0."""
    allowed_directory = tmp_path / "allowed"
    allowed_directory.mkdir()
    (allowed_directory / "inside.properties").write_text("user=inside")
    (allowed_directory / "link").symlink_to(allowed_directory / "inside.properties")
    (allowed_directory / "file").symlink_to(properties_file)
    (allowed_directory / "directory").symlink_to(secrets_directory)
    (tmp_path / "other-name").symlink_to(allowed_directory)
    for allowed_name in ("allowed", "other-name"):
        file_provider, directory_provider = FileConfigProvider(), DirectoryConfigProvider()
        for provider in (file_provider, directory_provider):
            provider.configure({"allowed.paths": str(tmp_path / allowed_name)})
        assert file_provider.get(str(allowed_directory / "link"), ["user"]).data == {"user": "inside"}
        assert directory_provider.get(str(allowed_directory), ["link"]).data == {"link": "user=inside"}
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert file_provider.get(str(allowed_directory / "file"), ["user"]).data == {}
            assert file_provider.get(str(allowed_directory / "directory" / "password"), ["line"]).data == {}
            assert directory_provider.get(str(allowed_directory / "directory"), ["password"]).data == {}
            assert file_provider.get(str(allowed_directory / "missing"), ["user"]).data == {}
        assert [record.getMessage() for record in caplog.records] == [
            f"The path {allowed_directory / name} is not allowed to be accessed"
            for name in ("file", "directory/password", "directory", "missing")
        ]


@pytest.mark.parametrize("provider_class", [FileConfigProvider, DirectoryConfigProvider])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("etc/kraal", "Path etc/kraal is not absolute"),
        ("/no/such/../place", "Path /no/place does not exist"),
        ("/,x", "Path x is not absolute"),
    ],
)
def test_allowed_paths_must_be_absolute_and_exist(
    provider_class: type[ConfigProvider], value: str, reason: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        provider_class().configure({"allowed.paths": value})
    assert str(caught.value) == reason


ENVIRONMENT = {"KRAAL_USER": "kraal", "KRAAL_EMPTY": "", "HOME": "/root"}


def test_env_provider_returns_variables() -> None:
    provider = EnvVarConfigProvider(ENVIRONMENT)
    assert provider.get("", ["KRAAL_USER", "KRAAL_EMPTY", "NONE"]).data == {
        "KRAAL_USER": "kraal",
        "KRAAL_EMPTY": "",
    }


def test_env_provider_reads_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAAL_TEST", "here")
    assert EnvVarConfigProvider().get("", ["KRAAL_TEST"]).data == {"KRAAL_TEST": "here"}


def test_allowlist_pattern_matches_whole_names() -> None:
    provider = EnvVarConfigProvider(ENVIRONMENT)
    provider.configure({"allowlist.pattern": "KRAAL_U"})
    assert provider.get("", list(ENVIRONMENT)).data == {}
    provider = EnvVarConfigProvider(ENVIRONMENT)
    provider.configure({"allowlist.pattern": "KRAAL_.*"})
    assert provider.get("", list(ENVIRONMENT)).data == {"KRAAL_USER": "kraal", "KRAAL_EMPTY": ""}


def test_invalid_allowlist_pattern_is_rejected() -> None:
    with pytest.raises(BadRequest, match=r"allowlist\.pattern is not a valid regular expression: \*"):
        EnvVarConfigProvider(ENVIRONMENT).configure({"allowlist.pattern": "*"})


def test_env_provider_rejects_path() -> None:
    with pytest.raises(ProviderFailed) as caught:
        EnvVarConfigProvider(ENVIRONMENT).get("x", ["HOME"])
    assert str(caught.value) == "Path is not supported for EnvVarConfigProvider, invalid value 'x'"
