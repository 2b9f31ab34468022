"""Charts of a connector's recent metrics, from `GET …/series`. A script draws them; the fallback is SVG. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import get_integer, is_number, mapping, maps, texts

Values = Sequence[float | None]

WIDTH: Final = 360
HEIGHT: Final = 80
"""Size of the SVG charts, which are shown if scripts are disabled."""
MAX_LINES: Final = 8
"""Maximum number of tasks with separate lines; with more tasks, only their total has a line."""
_MAX_SAMPLES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a chart."""

    label: str
    values: Values
    """One value per sample; None if unknown."""
    path: str
    """SVG path of the line in a box of WIDTH by HEIGHT."""

    @property
    def latest(self) -> float | None:
        """Latest known value."""
        return next((value for value in reversed(self.values) if value is not None), None)

    @property
    def mean(self) -> float | None:
        """Mean of the known values."""
        values = [value for value in self.values if value is not None]
        return sum(values) / len(values) if values else None

    @property
    def highest(self) -> float | None:
        """Highest value."""
        return max((value for value in self.values if value is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Chart of one measure, or of the phases of a batch."""

    key: str
    title: str
    unit: str
    """`ms` or empty."""
    stacked: bool
    """Whether the lines add up to a total."""
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """Charts of a connector or of one task."""

    start_ms: int
    step_ms: int
    count: int
    """Number of samples."""
    charts: Sequence[Chart]
    silent_workers: Sequence[str]
    """Workers that did not respond."""

    @property
    def minutes(self) -> int:
        """Duration of the series in minutes."""
        return round(self.count * self.step_ms / 60_000)

    @property
    def has_times(self) -> bool:
        """Whether any chart shows times."""
        return any(chart.unit == "ms" for chart in self.charts)

    def to_json(self) -> dict[str, Any]:
        """Return the data that the script draws."""
        return {
            "start_ms": self.start_ms,
            "step_ms": self.step_ms,
            "charts": [
                {
                    "key": chart.key,
                    "unit": chart.unit,
                    "stacked": chart.stacked,
                    "lines": [{"label": line.label, "values": line.values} for line in chart.lines],
                }
                for chart in self.charts
            ],
        }


def build_charts(series: object, task: int | None = None) -> Charts:
    """Return the charts of all tasks together, or of one task, without charts that have no values."""
    content = mapping(series)
    tasks = [
        series_of_task
        for series_of_task in maps(content.get("tasks"))
        if task is None or get_integer(series_of_task, "id") == task
    ]
    count = min(
        max(
            (len(column) for columns in tasks for column in columns.values() if isinstance(column, list)),
            default=0,
        ),
        _MAX_SAMPLES,
    )
    rates = _lines_by_task(tasks, "records_per_second", count)
    backlogs = _lines_by_task(tasks, "backlog_records", count)
    times = {
        label: [_task_values(columns, key, count) for columns in tasks]
        for label, key in (("Poll", "poll_ms"), ("Write", "write_ms"), ("Commit", "commit_ms"))
    }
    phases = {label: _combine(task_series, _mean, count) for label, task_series in times.items()}
    has_several_tasks = len(tasks) > 1
    charts = (
        _build_chart("rate", "Records per second", "", rates),
        _build_chart(
            "phases",
            "Batch by phase" + (", mean of tasks" if has_several_tasks else ""),
            "ms",
            phases,
            stacked=_can_stack(zip(*times.values(), strict=True)),
        ),
        _build_chart("backlog", "Backlog in records", "", backlogs),
    )
    return Charts(
        start_ms=get_integer(content, "start_ms") or 0,
        step_ms=max(get_integer(content, "step_ms") or 0, 1),
        count=count,
        charts=[chart for chart in charts if chart.lines],
        silent_workers=texts(content.get("silent")),
    )


def line_path(values: Values, top: float) -> str:
    """Return the SVG path of a line scaled to `top`. Missing values are gaps; isolated values are dashes."""
    step = WIDTH / max(len(values) - 1, 1)
    path: list[str] = []
    is_connected = False
    for index, value in enumerate(values):
        if value is not None:
            y = HEIGHT - 1 - max(value, 0.0) / (top or 1.0) * (HEIGHT - 2)
            path.append(f"{'L' if is_connected else 'M'}{index * step:.1f},{y:.1f}")
            if not is_connected and (index + 1 == len(values) or values[index + 1] is None):
                path.append("h2")
        is_connected = value is not None
    return "".join(path)


def _build_chart(
    key: str, title: str, unit: str, lines_by_label: Mapping[str, Values], *, stacked: bool = False
) -> Chart:
    known_lines = {
        label: values
        for label, values in lines_by_label.items()
        if any(value is not None for value in values)
    }
    top = max(
        (value for values in known_lines.values() for value in values if value is not None), default=0.0
    )
    lines = [
        Line(label=label, values=values, path=line_path(values, top)) for label, values in known_lines.items()
    ]
    return Chart(key=key, title=title, unit=unit, stacked=stacked, lines=lines)


def _lines_by_task(tasks: Sequence[Mapping[str, Any]], key: str, count: int) -> dict[str, Values]:
    """Return a line per task for up to `MAX_LINES` tasks, and a line for their total if there are several."""
    lines = {f"Task {task.get('id')}": _task_values(task, key, count) for task in tasks}
    if len(tasks) <= 1:
        return dict(lines)
    total = {"All tasks": _combine(list(lines.values()), sum, count)}
    return {**total, **lines} if len(tasks) <= MAX_LINES else total


def _task_values(task: Mapping[str, Any], key: str, count: int) -> Values:
    """Return the values of a task, padded with None at the end."""
    samples = task.get(key)
    values: list[float | None] = [
        sample if is_number(sample) else None
        for sample in (samples if isinstance(samples, list) else [])[:count]
    ]
    return values + [None] * (count - len(values))


def _combine(series: Sequence[Values], join: Callable[[list[float]], float], count: int) -> Values:
    combined_values: list[float | None] = []
    for index in range(count):
        known_values = [value for values in series if (value := values[index]) is not None]
        combined_values.append(round(join(known_values), 3) if known_values else None)
    return combined_values


def _can_stack(tasks: Iterable[Sequence[Values]]) -> bool:
    """Return whether the phases can be stacked as parts of one batch.

    At least half of the samples with any phase must have all phases. Java's runtime commits at a separate interval.
    """
    samples_with_any = samples_with_all = 0
    for phases in tasks:
        measured_phases = [values for values in phases if any(value is not None for value in values)]
        counts = [sum(value is not None for value in sample) for sample in zip(*measured_phases, strict=True)]
        if len(measured_phases) > 1:
            samples_with_any += sum(count > 0 for count in counts)
            samples_with_all += sum(count == len(measured_phases) for count in counts)
    return samples_with_all * 2 >= samples_with_any


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
