"""Tests for the built-in config providers, which have Java's names, parameters and errors."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kraal.config.provider import ConfigProvider
from kraal.config.providers import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider
from kraal.core.errors import BadRequest, ProviderFailed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("password=hünter2\nuser = kraal\nempty=\nescaped=\\u0041\nlong=a\\\n  b\n", "utf-8")
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = tmp_path / "secrets"
    (path / "deeper").mkdir(parents=True)
    (path / "password").write_bytes(b"line 1\nline 2\n")
    (path / "..data").write_text("hidden by its name alone")
    (path / "broken").write_bytes(b"a\xffb")
    (path / "link").symlink_to(path / "password")
    (path / "deeper" / "password").write_text("not this one")
    return path


def test_file_provider_returns_existing_keys(file: Path) -> None:
    values = FileConfigProvider().get(str(file), ["password", "empty", "escaped", "long", "none"])
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


def test_directory_provider_returns_file_contents(directory: Path) -> None:
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
    assert DirectoryConfigProvider().get(str(directory), keys).data == {
        "password": "line 1\nline 2\n",
        "link": "line 1\nline 2\n",
        "..data": "hidden by its name alone",
        "broken": "a\ufffdb",
    }
    assert DirectoryConfigProvider().get("", ["password"]).data == {}


def test_directory_provider_warns_about_path_of_file(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert DirectoryConfigProvider().get(str(file), ["password"]).data == {}
    assert [r.getMessage() for r in caplog.records] == [f"The path {file} is not a directory"]


def test_unreadable_file_in_directory_is_an_error(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise PermissionError("no")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(ProviderFailed) as caught:
        DirectoryConfigProvider().get(str(directory), ["password"])
    expected = f"Could not read file {directory / 'password'} for property password"
    assert str(caught.value) == expected


@pytest.mark.parametrize("make", [FileConfigProvider, DirectoryConfigProvider])
def test_path_outside_allowed_paths_returns_no_keys(
    make: type[ConfigProvider], directory: Path, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    provider = make()
    provider.configure({"allowed.paths": str(directory / "deeper")})
    for path in (directory, file, f"{directory}/deeper/..", f"{directory}/deeper-not"):
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            assert provider.get(str(path), ["password", "user"]).data == {}
        assert [r.getMessage() for r in caplog.records] == [f"The path {path} is not allowed to be accessed"]


def test_path_below_allowed_path_is_read(directory: Path, file: Path) -> None:
    files, directories = FileConfigProvider(), DirectoryConfigProvider()
    for provider in (files, directories):
        provider.configure({"allowed.paths": f"{directory / 'deeper'},{file.parent}/."})
    assert files.get(f"{directory}/../{file.name}", ["user"]).data == {"user": "kraal"}
    assert directories.get(str(directory / "deeper"), ["password"]).data == {"password": "not this one"}


def test_links_are_resolved_before_checking_allowed_paths(
    directory: Path, file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Source: AllowedPaths.parseUntrustedPath, which resolves links since Kafka 4.4.0."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "inside.properties").write_text("user=inside")
    (allowed / "link").symlink_to(allowed / "inside.properties")
    (allowed / "file").symlink_to(file)
    (allowed / "directory").symlink_to(directory)
    (tmp_path / "other-name").symlink_to(allowed)
    for listed in ("allowed", "other-name"):
        files, directories = FileConfigProvider(), DirectoryConfigProvider()
        for provider in (files, directories):
            provider.configure({"allowed.paths": str(tmp_path / listed)})
        assert files.get(str(allowed / "link"), ["user"]).data == {"user": "inside"}
        assert directories.get(str(allowed), ["link"]).data == {"link": "user=inside"}
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert files.get(str(allowed / "file"), ["user"]).data == {}
            assert files.get(str(allowed / "directory" / "password"), ["line"]).data == {}
            assert directories.get(str(allowed / "directory"), ["password"]).data == {}
            assert files.get(str(allowed / "missing"), ["user"]).data == {}
        assert [r.getMessage() for r in caplog.records] == [
            f"The path {allowed / name} is not allowed to be accessed"
            for name in ("file", "directory/password", "directory", "missing")
        ]


@pytest.mark.parametrize("make", [FileConfigProvider, DirectoryConfigProvider])
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("etc/kraal", "Path etc/kraal is not absolute"),
        ("/no/such/../place", "Path /no/place does not exist"),
        ("/,x", "Path x is not absolute"),
    ],
)
def test_allowed_paths_must_be_absolute_and_exist(
    make: type[ConfigProvider], value: str, reason: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        make().configure({"allowed.paths": value})
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
