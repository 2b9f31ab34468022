from __future__ import annotations

from pathlib import Path

import pytest

from kraal.client.target import InvalidTarget, parse_target


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://host:8083/", "http://host:8083"),
        ("host:8083", "http://host:8083"),
        ("https://host/connect/", "https://host/connect"),
        ("http://[::1]:8083", "http://[::1]:8083"),
        ("  http://me:hunter2@host:8083 ", "http://host:8083"),
    ],
)
def test_target_is_parsed(url: str, expected: str) -> None:
    assert parse_target(url).url == expected


def test_url_credentials_take_precedence_and_are_decoded() -> None:
    target = parse_target("http://me:p%40ss@host", user="other", password="no")  # noqa: S106 - test data
    assert target.user == "me"
    assert target.password is not None
    assert target.password.value == "p@ss"
    assert "p@ss" not in repr(target)


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        ("ftp://host", {}, "expected http:// or https://"),
        ("http://", {}, "expected something like"),
        ("http://me:hunter2@", {}, "expected something like"),
        ("http://host:x", {}, "Invalid worker URL 'http://host:x'; expected something like"),
        ("http://me:hunter2@host:x", {}, "Invalid worker URL; expected something like"),
        ("http://host:99999", {}, "expected something like"),
        ("http://me:hunter2@host?a=b", {}, "query and fragment are not allowed"),
        ("http://host", {"password": "hunter2"}, "KRAAL_USER"),
        ("http://me:hunter2@host", {"cacert": Path("ca.pem")}, "requires an https URL"),
    ],
)
def test_invalid_target_is_rejected_without_printing_the_password(
    url: str, options: dict[str, object], reason: str
) -> None:
    with pytest.raises(InvalidTarget, match=reason) as raised:
        parse_target(url, **options)  # type: ignore[arg-type]
    assert "hunter2" not in str(raised.value)
