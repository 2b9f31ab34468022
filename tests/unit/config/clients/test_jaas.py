from __future__ import annotations

import pytest

from kraal.config.clients.jaas import format_jaas, parse_jaas, parse_jaas_file

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param(
            f'{SCRAM} required username="u" password="p";',
            {"username": "u", "password": "p"},
            id="double quotes",
        ),
        pytest.param(
            f"{SCRAM} required username='u' password='p';",
            {"username": "u", "password": "p"},
            id="single quotes",
        ),
        pytest.param(
            f'{SCRAM} REQUIRED password="a;b=c d";',
            {"password": "a;b=c d"},
            id="special characters in a value",
        ),
        pytest.param(f'{SCRAM} required password="a\\"b\\\\c\\101";', {"password": 'a"b\\cA'}, id="escapes"),
        pytest.param(f"{SCRAM} required username=alice;", {"username": "alice"}, id="bare word"),
        pytest.param(f'{SCRAM}\n required\n username = "u"  ; ', {"username": "u"}, id="whitespace"),
        pytest.param(
            f'{SCRAM} required /* who */ username="//u"; // end', {"username": "//u"}, id="comments"
        ),
        pytest.param(f"{SCRAM} optional;", {}, id="no options"),
    ],
)
def test_login_module_is_parsed_like_java(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert module.name == "ScramLoginModule"
    assert module.options == options
    assert parse_jaas(format_jaas(SCRAM, options)) == module


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("  ", "it has no login module", id="blank"),
        pytest.param('="secret"', "must start with the class", id="no class"),
        pytest.param(f'{SCRAM} username="secret";', "must follow the login module's class", id="no flag"),
        pytest.param(f"{SCRAM}", "must follow the login module's class", id="only a class"),
        pytest.param(f'{SCRAM} required username="u"', "must end with a semicolon", id="no semicolon"),
        pytest.param(f'{SCRAM} required username="u" password=;', "option 2", id="no value"),
        pytest.param(f"{SCRAM} required password=123secret;", "option 1", id="a bare number"),
        pytest.param(f'{SCRAM} required password="sec"ret";', "option 2", id="a stray quote"),
        pytest.param(
            f'{SCRAM} required a="b"; {SCRAM} required c="d";',
            "several login modules",
            id="two login modules",
        ),
    ],
)
def test_errors_omit_secrets(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        parse_jaas(text)
    assert "secret" not in str(raised.value)
    assert "ret" not in str(raised.value).replace("are", "")


def test_repr_omits_options() -> None:
    assert "hush" not in repr(parse_jaas(f'{SCRAM} required password="hush";'))


def test_jaas_file_can_contain_several_entries() -> None:
    text = f"""
        // users of the REST API
        KafkaConnect {{
            {SCRAM} required file="/a b" debug=true;
            a.Other sufficient;
        }};
        "Empty" {{ }};
    """
    entries = parse_jaas_file(text)
    assert {name: [module.name for module in modules] for name, modules in entries.items()} == {
        "KafkaConnect": ["ScramLoginModule", "Other"],
        "Empty": [],
    }
    assert entries["KafkaConnect"][0].options == {"file": "/a b", "debug": "true"}
    assert parse_jaas_file(" ") == {}
