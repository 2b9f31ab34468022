"""Tests for the state of a dashboard: notices, and the keys of seals."""

from __future__ import annotations

from dataclasses import replace

from web.ui.memory import EXPIRED_NOTICE, DashboardState, Notice, Notices
from web.ui.views.commands import Result


def notice(count: int, text: str = "x") -> Notice:
    return Notice(
        title="Stop", results=tuple(Result(name=str(n), done=n % 2 == 0, text=text) for n in range(count))
    )


def test_notice_can_be_read_repeatedly_by_its_token() -> None:
    notices = Notices()
    token = notices.store(notice(3))
    assert notices.get(token) == notices.get(token) == notice(3)
    assert notice(3).failure_count == 1


def test_unknown_token_has_the_expired_notice_and_missing_token_none() -> None:
    assert Notices().get("") is None
    assert Notices().get("made-up") is EXPIRED_NOTICE


def test_tokens_differ_for_the_same_notice() -> None:
    notices = Notices()
    assert notices.store(notice(1)) != notices.store(notice(1))


def test_number_and_size_of_notices_are_limited() -> None:
    notices = Notices()
    first_token = notices.store(notice(1))
    tokens = [notices.store(notice(500, "y" * 10_000)) for _ in range(64)]
    assert notices.get(first_token) is EXPIRED_NOTICE
    stored_notice = notices.get(tokens[0])
    assert stored_notice is not None
    assert (len(stored_notice.results), stored_notice.omitted_count) == (100, 400)
    assert max(len(result.text) for result in stored_notice.results) == 2_000
    notice_with_long_name = notices.get(
        notices.store(Notice(title="Delete", results=(replace(stored_notice.results[0], name="x" * 10_000),)))
    )
    assert notice_with_long_name is not None
    assert len(notice_with_long_name.results[0].name) == 2_000


def test_every_dashboard_has_a_separate_key() -> None:
    config = {"a": "1", "b.password": "x"}
    seal = DashboardState().seals.seal(config, ())
    assert DashboardState().seals.seal(config, ()) != seal
