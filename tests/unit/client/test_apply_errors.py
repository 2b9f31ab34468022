"""Tests that `kraal apply` formats worker errors as one line."""

from __future__ import annotations

from http import HTTPStatus

from kraal.client.apply import format_error
from kraal.client.rest import RequestRejected


def make_rejection(text: str) -> RequestRejected:
    return RequestRejected(HTTPStatus.BAD_REQUEST, text, f"http://w:8083 returned 400: {text}")


def test_duplicate_validation_errors_are_printed_once() -> None:
    text = (
        "Connector configuration is invalid and contains the following 2 error(s):\n"
        "Must configure one of topics or topics.regex\n"
        "Must configure one of topics or topics.regex\n"
        "You can also find the above list of errors at the endpoint `/connector-plugins/…`"
    )
    assert format_error(make_rejection(text)) == "Must configure one of topics or topics.regex"


def test_plugins_in_errors_are_class_names() -> None:
    plugin_descriptions = ", ".join(
        f"PluginDesc{{klass={kind} {name}, name='{name}', version='1', encodedVersion=1, type=sink, "
        "typeName='sink', location='classpath'}"
        for kind, name in (("class", "a.B"), ("class", "a.Outer$C"))
    )
    text = (
        f"Failed to find any class that implements Connector, available connectors are: {plugin_descriptions}"
    )
    assert format_error(make_rejection(text)).endswith("available connectors are: a.B, a.Outer$C")
