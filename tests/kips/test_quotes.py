"""The KIPs are complete here, and every sentence is proven, or listed with the reason why not."""

from __future__ import annotations

import pytest

from tests.kips.page import PAGE, page
from tests.kips.quotes import Quote, proofs, quoted, quotes
from tests.kips.sentences import Kip, Sentence, digest, kips, part_of, sentences_in, split

EVERY = [pytest.param(kip, id=f"KIP-{number}") for number, kip in kips().items()]
COMPAT = PAGE.with_name("compat.md")
NOT_YET: dict[str, str] = {}
"""What sentences wait for, and how the row of the table begins, or ends, that says so."""
WITHOUT_SPLITTING = (
    "{",
    "$",
    "key:",
    "POST",
    "kafka.connect",
    "topic.tracking",
    "1.",
    "2.",
    "3.",
    "4.",
    "5.",
    "6.",
    "7.",
    "8.",
    "- ",
    "• ",
)


@pytest.mark.parametrize("kip", EVERY)
def test_no_sentence_of_the_kip_is_left_out_or_changed(kip: Kip) -> None:
    assert digest(kip.text()) == kip.digest


@pytest.mark.parametrize("kip", EVERY)
def test_each_entry_is_one_sentence(kip: Kip) -> None:
    prose = [s.says for s in kip.sentences if not s.says.strip().startswith(WITHOUT_SPLITTING)]
    assert [each for each in prose if len(split(each)) != 1] == []


@pytest.mark.parametrize("kip", EVERY)
def test_every_sentence_is_proven_in_its_modes_or_has_a_reason(kip: Kip) -> None:
    unproven = []
    for sentence in kip.sentences:
        modes = {mode for quote in proofs(kip.number, sentence) for mode in quote.modes}
        missing = [mode for mode in sentence.modes if mode not in modes]
        if sentence.because is None and missing:
            unproven.append((sentence.number, sentence.says, missing))
    assert unproven == [], "quote them in a test, or say in the file why there is none"


@pytest.mark.parametrize("kip", EVERY)
def test_no_reason_is_given_where_there_is_a_proof(kip: Kip) -> None:
    reasons = [sentence for sentence in kip.sentences if sentence.because is not None]
    assert [s.says for s in reasons if s.only or s.but or proofs(kip.number, s)] == []


@pytest.mark.parametrize("kip", EVERY)
def test_every_quote_is_in_the_kip(kip: Kip) -> None:
    given = [quote for quote in quotes() if quote.kip == kip.number]
    assert given
    assert [q for q in given if not any(sentence.has(q.text) for sentence in kip.sentences)] == []


@pytest.mark.parametrize("kip", EVERY)
def test_sentences_that_wait_for_a_feature_wait_only_until_it_exists(kip: Kip) -> None:
    waiting = [sentence for sentence in kip.sentences if sentence.because and " yet" in sentence.because]
    not_there = COMPAT.read_text("utf-8").partition("## Not there yet")[2]
    over = [s.says for s in waiting if s.because is None or NOT_YET[s.because] not in not_there]
    assert over == [], "it is there now: prove the sentence"


def test_every_test_of_a_kip_quotes_it() -> None:
    assert [quote for quote in quotes() if quote.kip not in kips()] == []


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.kips"


# -- the means ---------------------------------------------------------------------------------------------


def test_prose_is_split_into_sentences() -> None:
    assert split('One (e.g. this). "Two" is it? `Three`, i.e. the last.') == [
        "One (e.g. this).",
        '"Two" is it?',
        "`Three`, i.e. the last.",
    ]


def test_code_is_one_sentence() -> None:
    assert list(sentences_in("One. Two:\n```\na. B\nc. D\n```\nThree.")) == [
        "One.",
        "Two:",
        "a. B\nc. D",
        "Three.",
    ]


def test_a_part_of_a_kip_begins_at_its_last_heading_of_that_name() -> None:
    kip = Kip(number=1, title="", begins="B", ends="E", digest="", sentences=())
    assert part_of("A\nB\nE\nA\nB\none\nE\ntwo", kip) == "B\none"


def test_a_digest_minds_words_only() -> None:
    assert digest("a \u2013 b\n`c`") == digest("a-b, c")
    assert digest("a b") != digest("b a")


def test_quotes_are_read_from_a_docstring() -> None:
    assert quoted("First.\n\n    > one\n    > two\n\n    > three\n    text") == ["one two", "three"]


def test_a_quote_minds_no_typography() -> None:
    sentence = Sentence(number=1, section="", says="the “state” is\xa0`RUNNING` \u2013 *now*")
    assert sentence.has('"state" is RUNNING - now')
    assert not sentence.has("is PAUSED")
    assert not sentence.has("is RUN"), "whole words"


def test_a_quote_knows_its_modes() -> None:
    by_mode: dict[tuple[str, ...], list[Quote]] = {}
    for quote in quotes():
        by_mode.setdefault(quote.modes, []).append(quote)
    assert set(by_mode) == {("standalone", "distributed"), ("standalone",), ("distributed",)}
