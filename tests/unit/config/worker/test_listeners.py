"""Tests for the advertised URL of a worker. Mirrors RestServerTest.testAdvertisedUri."""

from __future__ import annotations

import socket

import pytest

from kraal.config.worker.listeners import advertise, parse_listeners

ADVERTISED = "rest.advertised."


@pytest.mark.parametrize(
    ("listeners", "advertised_settings", "url"),
    [
        ("http://a:1,https://b:2", {}, "http://a:1/"),
        ("https://b:2,http://a:1", {}, "http://a:1/"),
        ("https://b:2", {}, "https://b:2/"),
        ("HTTPS://b:2,https://c:3", {}, "https://b:2/"),
        ("http://a:1,https://b:2", {"listener": "https"}, "https://b:2/"),
        ("http://a:1,https://b:2", {"listener": "HTTPS", "port": 4}, "https://b:4/"),
        ("http://a:1,https://b:2", {"host.name": "x"}, "http://x:1/"),
        ("http://a:1", {"listener": "https", "host.name": "x", "port": 443}, "https://x:443/"),
        ("http://a:1", {"listener": "https"}, "https://a:1/"),
        ("https://[::1]:2", {"host.name": "::2"}, "https://[::2]:2/"),
    ],
)
def test_advertised_url_has_scheme_host_and_port(
    listeners: str, advertised_settings: dict[str, object], url: str
) -> None:
    parsed_listeners, errors = parse_listeners("listeners", listeners.split(","))
    assert errors == []
    assert (
        advertise(parsed_listeners, {ADVERTISED + name: value for name, value in advertised_settings.items()})
        == url
    )


@pytest.mark.parametrize(("listener", "url"), [(None, "http://b:12/"), ("https", "https://a:11/")])
def test_advertised_port_is_bound_port_of_listener(listener: str | None, url: str) -> None:
    parsed_listeners, _ = parse_listeners("listeners", ["https://a:0", "http://b:0", "http://c:3"])
    assert advertise(parsed_listeners, {f"{ADVERTISED}listener": listener}, bound_ports=[11, 12, 3]) == url


def test_default_host_is_address_of_host_name(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed_listeners, _ = parse_listeners("listeners", ["http://:8083"])
    monkeypatch.setattr(socket, "gethostbyname", lambda _name: "10.1.2.3")
    assert advertise(parsed_listeners, {}) == "http://10.1.2.3:8083/"

    def fail_lookup(_name: str) -> str:
        raise socket.gaierror

    monkeypatch.setattr(socket, "gethostbyname", fail_lookup)
    assert advertise(parsed_listeners, {}) == "http://127.0.0.1:8083/"
