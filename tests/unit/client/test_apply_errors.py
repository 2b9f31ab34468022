"""How errors of a worker become one line of `kraal apply`."""

from __future__ import annotations

from http import HTTPStatus

from kraal.client.apply import sentence
from kraal.client.rest import Refused


def refused(text: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, text, f"http://w:8083 answered 400: {text}")


def test_a_validation_error_of_two_keys_is_printed_once() -> None:
    text = (
        "Connector configuration is invalid and contains the following 2 error(s):\n"
        "Must configure one of topics or topics.regex\n"
        "Must configure one of topics or topics.regex\n"
        "You can also find the above list of errors at the endpoint `/connector-plugins/…`"
    )
    assert sentence(refused(text)) == "Must configure one of topics or topics.regex"


def test_plugins_are_listed_by_the_names_of_their_classes() -> None:
    listed = ", ".join(
        f"PluginDesc{{klass={kind} {name}, name='{name}', version='1', encodedVersion=1, type=sink, "
        "typeName='sink', location='classpath'}"
        for kind, name in (("class", "a.B"), ("class", "a.Outer$C"))
    )
    text = f"Failed to find any class that implements Connector, available connectors are: {listed}"
    assert sentence(refused(text)).endswith("available connectors are: a.B, a.Outer$C")
