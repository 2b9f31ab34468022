from __future__ import annotations

from typing import Any

import pytest

from web.ui.views.activity.logs import (
    MAX_LINES,
    filter_log,
    level_request,
    level_result,
    parse_level,
    plugin_loggers,
)


def line(
    number: int, level: str = "INFO", message: str = "", *, task: int | None = 0, logger: str = "a.b"
) -> Any:
    return {
        "id": number,
        "ms": number * 1_000,
        "worker_id": "w:1",
        "level": level,
        "logger": logger,
        "task": task,
        "message": message or f"line {number}",
    }


def messages(response: Any, **filters: Any) -> list[str]:
    return [log_line.message for log_line in filter_log(response, **filters).lines]


def test_newest_line_comes_first_across_workers() -> None:
    assert messages({"lines": [line(2), line(3), line(1)]}) == ["line 3", "line 2", "line 1"]


def test_level_filter_includes_higher_levels() -> None:
    response = {
        "lines": [
            line(number, level) for number, level in enumerate(("DEBUG", "INFO", "WARNING", "ERROR", "odd"))
        ]
    }
    assert messages(response, level="WARN") == ["line 4", "line 3", "line 2"]
    assert len(messages(response)) == 5


def test_lines_are_filtered_by_task_and_text() -> None:
    response = {
        "lines": [line(1, task=None), line(2, task=1), line(3, message="Disk FULL"), line(4, logger="x.full")]
    }
    assert messages(response, task=1) == ["line 2"]
    assert messages(response, query="full") == ["line 4", "Disk FULL"]


def test_number_of_lines_is_limited_and_more_lines_are_reported() -> None:
    log = filter_log(
        {"lines": [line(number) for number in range(MAX_LINES + 1)], "dropped": 7, "silent": ["w:2"]}
    )
    assert (len(log.lines), log.has_more, log.dropped, log.silent_workers) == (MAX_LINES, True, 7, ["w:2"])
    assert log.lines[0].id == MAX_LINES


def test_levels_have_a_tone() -> None:
    tones = [
        log_line.tone
        for log_line in filter_log(
            {"lines": [line(9 - number, level) for number, level in enumerate(LEVELS)]}
        ).lines
    ]
    assert tones == ["fine", "fine", "info", "warn", "error", "error", "info"]


LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "CRITICAL", "odd")


@pytest.mark.parametrize(
    ("query_level", "level"), [("warn", "WARN"), ("WARNING", "WARN"), ("", ""), ("<b>", "")]
)
def test_parse_level_ignores_unknown_levels(query_level: str, level: str) -> None:
    assert parse_level(query_level) == level


def test_loggers_of_plugin_and_lines_have_effective_levels() -> None:
    levels = {
        "root": {"level": "INFO"},
        "org.acme": {"level": "WARN"},
        "org.acme.sink.writer": {"level": "DEBUG"},
        "org.acmeother": {"level": "OFF"},
    }
    lines = filter_log({"lines": [line(1, logger="kraal.engine")]}).lines
    loggers = plugin_loggers(levels, "org.acme.sink.JdbcSink", lines)
    assert [(logger.name, logger.level) for logger in loggers] == [
        ("org.acme.sink", "WARN"),
        ("org.acme.sink.writer", "DEBUG"),
        ("kraal.engine", "INFO"),
    ]


def test_plugin_alias_has_the_loggers_of_its_lines() -> None:
    lines = filter_log({"lines": [line(1, logger="x")]}).lines
    assert [(logger.name, logger.level) for logger in plugin_loggers(None, "FileStreamSource", lines)] == [
        ("x", "")
    ]


def test_level_request_names_logger_and_scope() -> None:
    request = level_request(" a.b/../c ", "DEBUG", "cluster")
    assert (request.text, request.body) == (
        "PUT /admin/loggers/a.b%2F..%2Fc?scope=cluster",
        {"level": "DEBUG"},
    )


@pytest.mark.parametrize(
    ("logger", "level", "scope", "error"),
    [
        (" ", "INFO", "worker", "Enter the name of a logger."),
        ("a", "LOUD", "worker", "Unknown level 'LOUD'"),
        ("a", "INFO", "world", "Unknown scope 'world'"),
    ],
)
def test_invalid_level_or_scope_is_rejected(logger: str, level: str, scope: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        level_request(logger, level, scope)


def test_result_names_the_scope_of_a_level() -> None:
    assert level_result("DEBUG", "cluster", "w:1", None) == "will log at DEBUG on all workers"
    assert (
        level_result("DEBUG", "worker", "w:1", ["a", "a.b", "a.c"])
        == "logs at DEBUG on w:1, with 2 child loggers"
    )
    assert level_result("DEBUG", "worker", "w:1", ["a"]) == "logs at DEBUG on w:1"


@pytest.mark.parametrize("response", [None, [], {"lines": 7}, {"lines": [None, 7]}])
def test_malformed_response_has_no_lines(response: object) -> None:
    assert filter_log(response).lines == []
    assert filter_log({"lines": [{}]}).lines[0].message == ""
