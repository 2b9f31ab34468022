from __future__ import annotations

import json
from typing import Any

import pytest

from web.ui.views.activity.charts import HEIGHT, MAX_LINES, WIDTH, build_charts, line_path


def task(number: int, **values: Any) -> Any:
    return {"id": number, **values}


def series(*tasks: Any) -> Any:
    return {"step_ms": 5_000, "start_ms": 60_000, "tasks": list(tasks), "silent": ["w:2"]}


def lines(charts: Any, key: str) -> dict[str, list[float | None]]:
    return {
        chart_line.label: list(chart_line.values)
        for chart in charts.charts
        if chart.key == key
        for chart_line in chart.lines
    }


def test_single_task_has_one_line() -> None:
    charts = build_charts(series(task(0, records_per_second=[1, None, 3])))
    assert lines(charts, "rate") == {"Task 0": [1, None, 3]}
    assert (charts.start_ms, charts.step_ms, charts.count, charts.silent_workers) == (
        60_000,
        5_000,
        3,
        ["w:2"],
    )


def test_several_tasks_have_a_total_and_separate_lines() -> None:
    charts = build_charts(
        series(task(0, backlog_records=[1, None, None]), task(1, backlog_records=[2, 5, None]))
    )
    assert lines(charts, "backlog") == {
        "All tasks": [3, 5, None],
        "Task 0": [1, None, None],
        "Task 1": [2, 5, None],
    }


def test_many_tasks_have_only_a_total() -> None:
    charts = build_charts(series(*(task(number, records_per_second=[1]) for number in range(MAX_LINES + 1))))
    assert lines(charts, "rate") == {"All tasks": [MAX_LINES + 1]}


def test_one_of_several_tasks_can_be_selected() -> None:
    charts = build_charts(series(task(0, records_per_second=[1]), task(1, records_per_second=[2])), task=1)
    assert lines(charts, "rate") == {"Task 1": [2]}


def test_phases_are_averaged_over_tasks_with_batches() -> None:
    charts = build_charts(
        series(
            task(0, write_ms=[10, None, 10, 10], commit_ms=[1, 1, 1, 1]),
            task(1, write_ms=[20, None, 20, 20], commit_ms=[None, 2, 3, 3]),
        )
    )
    assert lines(charts, "phases") == {"Write": [15, None, 15, 15], "Commit": [1, 1.5, 2, 2]}
    assert [(chart.title, chart.stacked) for chart in charts.charts] == [
        ("Batch by phase, mean of tasks", True)
    ]


def test_phases_are_stacked_only_for_the_same_batches() -> None:
    def is_stacked(**values: Any) -> bool:
        chart_of_several_tasks = build_charts(
            series(*(task(number, **values) for number in range(4)))
        ).charts[0]
        (chart,) = build_charts(series(task(0, **values))).charts
        assert chart_of_several_tasks.stacked == chart.stacked
        return chart.stacked

    assert is_stacked(poll_ms=[3, 3, None, 3], write_ms=[9, 9, None, 9], commit_ms=[1, None, 1, 1])
    assert is_stacked(poll_ms=[None, None], write_ms=[9, None]), "a single phase can be stacked"
    assert not is_stacked(poll_ms=[3, 3, 3, 3], commit_ms=[None, 60, None, None])
    alternating_tasks = [task(0, poll_ms=[3, 3, 3], commit_ms=[9, None, None]), task(1, poll_ms=[3, 3, 3])]
    alternating_tasks.append(task(2, poll_ms=[3, 3, 3], commit_ms=[None, 9, None]))
    assert not build_charts(series(*alternating_tasks)).charts[0].stacked


def test_charts_report_whether_they_have_times() -> None:
    assert build_charts(series(task(0, poll_ms=[1]))).has_times
    assert not build_charts(series(task(0, records_per_second=[1], poll_ms=[None]))).has_times


def test_chart_without_values_is_omitted() -> None:
    assert build_charts(series(task(0, records_per_second=[None], backlog_records=[]))).charts == []


def test_line_has_latest_mean_and_highest_value() -> None:
    (line,) = build_charts(series(task(0, records_per_second=[1, 6, 2, None]))).charts[0].lines
    assert (line.latest, line.mean, line.highest) == (2, 3, 6)


def test_lines_of_a_chart_share_a_scale_and_have_gaps() -> None:
    assert line_path([0, 10, None, 5], 10) == f"M0.0,{HEIGHT - 1}.0L{WIDTH / 3:.1f},1.0M{WIDTH:.1f},40.0h2"
    rate = build_charts(series(task(0, records_per_second=[2]), task(1, records_per_second=[2]))).charts[0]
    assert [chart_line.path[:9] for chart_line in rate.lines] == ["M0.0,1.0h", "M0.0,40.0", "M0.0,40.0"]


def test_chart_data_is_plain_json() -> None:
    charts = build_charts(series(task(0, records_per_second=[1, float("nan"), True, "<script>"])))
    text = json.dumps(charts.to_json(), allow_nan=False)
    assert json.loads(text)["charts"] == [
        {
            "key": "rate",
            "unit": "",
            "stacked": False,
            "lines": [{"label": "Task 0", "values": [1, None, None, None]}],
        }
    ]


@pytest.mark.parametrize("response", [None, [], {"tasks": 7}, {"tasks": [None, {"records_per_second": 7}]}])
def test_malformed_response_has_no_charts(response: object) -> None:
    assert build_charts(response).charts == []


def test_short_arrays_are_padded() -> None:
    charts = build_charts(series(task(0, records_per_second=[1, 2, 3]), task(1, records_per_second=[1])))
    assert lines(charts, "rate")["All tasks"] == [2, 2, 3]


def test_long_arrays_are_truncated() -> None:
    assert build_charts(series(task(0, records_per_second=[1] * 5_000))).count == 1_000
