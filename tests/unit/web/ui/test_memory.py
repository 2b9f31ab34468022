from __future__ import annotations

from dataclasses import replace

from web.ui.memory import FORGOTTEN, Memory, Notice, Notices
from web.ui.views.commands import Result


def notice(count: int, text: str = "x") -> Notice:
    return Notice(
        title="Stop", results=tuple(Result(name=str(n), done=n % 2 == 0, text=text) for n in range(count))
    )


def test_a_notice_can_be_read_repeatedly_by_its_token() -> None:
    notices = Notices()
    token = notices.keep(notice(3))
    assert notices.find(token) == notices.find(token) == notice(3)
    assert notice(3).failed == 1


def test_an_unknown_token_has_a_notice_and_a_missing_token_none() -> None:
    assert Notices().find("") is None
    assert Notices().find("made-up") is FORGOTTEN


def test_tokens_differ_for_the_same_notice() -> None:
    notices = Notices()
    assert notices.keep(notice(1)) != notices.keep(notice(1))


def test_notices_are_bounded() -> None:
    notices = Notices()
    first = notices.keep(notice(1))
    tokens = [notices.keep(notice(500, "y" * 10_000)) for _ in range(64)]
    assert notices.find(first) is FORGOTTEN
    stored = notices.find(tokens[0])
    assert stored is not None
    assert (len(stored.results), stored.left_out) == (100, 400)
    assert max(len(each.text) for each in stored.results) == 2_000
    named = notices.find(
        notices.keep(Notice(title="Delete", results=(replace(stored.results[0], name="x" * 10_000),)))
    )
    assert named is not None
    assert len(named.results[0].name) == 2_000


def test_each_dashboard_has_its_own_key() -> None:
    stored = {"a": "1", "b.password": "x"}
    seal = Memory().seals.seal(stored, ())
    assert Memory().seals.seal(stored, ()) != seal
