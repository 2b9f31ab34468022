from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraal.config.hidden import HIDDEN
from kraal.core.ids import Config
from web.ui.views.form import DROP_PREFIX, MARK_PREFIX, VALUE_PREFIX, Form, build_form
from web.ui.views.form_post import (
    CHANGED_SECRET_ERROR,
    JSON_FIELD,
    NEW_KEY,
    NEW_VALUE,
    NO_SECRET_ERROR,
    Seals,
    read_post,
    restore,
    typed_digest,
)


def submitted_fields(form: Form) -> list[tuple[str, str]]:
    """Return the fields that a browser submits, with CR LF as the line break in values."""
    pairs = []
    for form_field in [*(item for group in form.groups for item in group.fields), *form.extras]:
        pairs.append(
            (
                form_field.inputs["value"],
                form_field.value.replace("\0", "\ufffd")
                .replace("\r\n", "\n")
                .replace("\r", "\n")
                .replace("\n", "\r\n"),
            )
        )
        if form_field.marker:
            pairs.append((form_field.inputs["mark"], form_field.marker.value))
    return parse_qsl(urlencode(pairs, errors="replace"), keep_blank_values=True)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(text, st.none() | text | st.sampled_from(["", "a\nb", "a\r\nb", "a\rb", "a\0b"])))
def test_unchanged_form_sends_the_displayed_config(config: dict[str, str | None]) -> None:
    config = {key: value for key, value in config.items() if HIDDEN not in (value or "")}
    post = read_post(submitted_fields(build_form({}, config)))
    assert restore(post.config, config).config == config


def test_empty_inputs_are_dropped_and_typed_values_override_markers() -> None:
    assert read_post([(VALUE_PREFIX + "a", ""), (VALUE_PREFIX + "b", "1")]).config == {"b": "1"}
    assert read_post([(VALUE_PREFIX + "a", "x"), (MARK_PREFIX + "a", "null")]).config == {"a": "x"}


def test_unknown_keys_can_be_removed_and_added() -> None:
    pairs = [(VALUE_PREFIX + "a", "1"), (DROP_PREFIX + "a", "on"), (VALUE_PREFIX + "b", "2")]
    pairs += [
        (NEW_KEY, " c.d "),
        (NEW_VALUE, ""),
        (NEW_KEY, ""),
        (NEW_VALUE, "lost"),
        (NEW_KEY, "e"),
        (NEW_VALUE, "3"),
    ]
    assert read_post(pairs).config == {"b": "2", "c.d": "", "e": "3"}


def test_json_numbers_are_kept_as_written() -> None:
    post = read_post(
        [(JSON_FIELD, '{"a": 1.50, "b": true, "c": null, "d": "x"}'), (VALUE_PREFIX + "a", "other")]
    )
    assert post.config == {"a": "1.50", "b": "true", "c": None, "d": "x"}
    assert post.problem == ""


def test_body_of_a_create_request_is_accepted() -> None:
    post = read_post([(JSON_FIELD, '{"name": "c", "config": {"a": "1"}, "initial_state": "STOPPED"}')])
    assert post.config == {"name": "c", "a": "1"}


def pasted_request(offset: str) -> str:
    return '{"config": {"a": 1.50}, "initial_offsets": [{"partition": {"n": 1}, "offset": ' + offset + "}]}"


def test_pasted_offsets_keep_numbers_and_config_values_become_strings() -> None:
    post = read_post(
        [(JSON_FIELD, pasted_request('{"p": [12345678901234567890, "1", 1.50, 1e3, NaN, true]}'))]
    )
    assert post.config == {"a": "1.50"}
    assert {type(value) for value in post.config.values()} == {str}
    [row] = post.initial_offsets.rows
    assert row.partition == '{"n": 1}'
    assert row.offset == '{"p": [12345678901234567890, "1", 1.5, 1000.0, NaN, true]}'


@pytest.mark.parametrize(
    ("offset", "problem"),
    [
        ('{"p": ' + "1" * 5000 + "}", "4300"),
        ('{"p": ' + "[" * 2000 + "]" * 2000 + "}", "too deeply"),
    ],
)
def test_invalid_pasted_offsets_are_an_error(offset: str, problem: str) -> None:
    post = read_post([(JSON_FIELD, pasted_request(offset))])
    assert problem in post.problem
    assert (post.text, post.config) == (pasted_request(offset), {})


@pytest.mark.parametrize(
    ("text_with_error", "problem"),
    [
        ("{", "cannot be read"),
        ("[]", "must be an object"),
        ('{"a": {}}', "'a' has another type of value"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ("[" * 100_000, "too deeply"),
    ],
)
def test_invalid_json_is_reported_and_preserved(text_with_error: str, problem: str) -> None:
    post = read_post([(JSON_FIELD, text_with_error)])
    assert problem in post.problem
    assert post.text == text_with_error
    assert post.config == {}


def test_unchanged_placeholder_keeps_the_stored_secret() -> None:
    stored_config = {"db.password": "geheim", "url": "pg://me:geheim@h/d", "phrase": "geheim", "a": "1"}
    typed_config = {"db.password": HIDDEN, "url": f"pg://me:{HIDDEN}@h/d", "phrase": HIDDEN, "a": "2"}
    result = restore(typed_config, stored_config, {"phrase"})
    assert result.config == {**stored_config, "a": "2"}
    assert result.errors == {}


def test_new_secret_replaces_the_stored_secret() -> None:
    assert restore({"db.password": "neu"}, {"db.password": "alt"}).config == {"db.password": "neu"}


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("new.password", HIDDEN, NO_SECRET_ERROR),
        ("topic", f"x{HIDDEN}", CHANGED_SECRET_ERROR),
        ("url", f"pg://me:{HIDDEN}@other/d", CHANGED_SECRET_ERROR),
        ("empty.password", HIDDEN, NO_SECRET_ERROR),
    ],
)
def test_placeholder_without_a_stored_secret_is_an_error(key: str, value: str, error: str) -> None:
    stored_config = {"db.password": "geheim", "url": "pg://me:geheim@h/d", "topic": "t", "empty.password": ""}
    result = restore({key: value}, stored_config)
    assert result.errors == {key: (error,)}
    assert "geheim" not in json.dumps(result.config)


def test_new_connector_has_no_stored_secrets() -> None:
    assert restore({"db.password": HIDDEN}, None).errors == {"db.password": (NO_SECRET_ERROR,)}


STORED_CONFIG = {"a": "1", "db.password": "geheim", "phrase": "geheim"}


@pytest.mark.parametrize(
    "other_config",
    [
        {**STORED_CONFIG, "a": "2"},
        {"a": "1"},
        {**STORED_CONFIG, "b": None},
        {**STORED_CONFIG, "db.password": "x"},
    ],
)
def test_seal_detects_any_change(other_config: Config) -> None:
    seals = Seals(b"key")
    seal = seals.seal(STORED_CONFIG, {"phrase"})
    assert seals.matches(seal, dict(reversed(STORED_CONFIG.items())), {"phrase"})
    assert not seals.matches(seal, other_config, {"phrase"})


def test_worker_with_another_key_verifies_the_non_secret_values() -> None:
    seal = Seals(b"key").seal(STORED_CONFIG, {"phrase"})
    assert Seals(b"other").matches(seal, STORED_CONFIG, {"phrase"})
    assert not Seals(b"other").matches(seal, {**STORED_CONFIG, "a": "2"}, {"phrase"})


def test_seal_does_not_reveal_secrets() -> None:
    seals = Seals(b"key")
    first_seal = seals.seal(STORED_CONFIG, {"phrase"})
    second_seal = seals.seal({**STORED_CONFIG, "phrase": "else", "db.password": "else"}, {"phrase"})
    assert first_seal.split(".")[2] == second_seal.split(".")[2]
    assert first_seal.split(".")[1] != second_seal.split(".")[1]
    assert first_seal.split(".")[1] != Seals(b"other").seal(STORED_CONFIG, {"phrase"}).split(".")[1]


@pytest.mark.parametrize("seal", ["", ".", "a.b.c", "ä.ö.ü", "..." * 1000])
def test_forged_seal_is_rejected(seal: str) -> None:
    assert not Seals(b"key").matches(seal, STORED_CONFIG, ())


def test_digest_is_unique_per_config() -> None:
    assert (
        typed_digest({"a": "1", "b": "2"}) == typed_digest({"b": "2", "a": "1"}) != typed_digest({"a": "1"})
    )
