"""Charts of a connector's last minutes, from `GET …/series`: for a script, and for readers without scripts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import is_number, mapping, maps, texts, whole

Values = Sequence[float | None]

WIDTH: Final = 360
HEIGHT: Final = 80
"""Size of the charts that need no script."""
MOST_LINES: Final = 8
"""Tasks with a line of their own; of more, only the total is shown."""
_MOST_SAMPLES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a chart."""

    label: str
    values: Values
    """One for each sample; None: not known."""
    path: str
    """The line in a box of WIDTH by HEIGHT."""

    @property
    def latest(self) -> float | None:
        """The latest value that is known."""
        return next((value for value in reversed(self.values) if value is not None), None)

    @property
    def mean(self) -> float | None:
        """The mean of the values that are known."""
        known = [value for value in self.values if value is not None]
        return sum(known) / len(known) if known else None

    @property
    def highest(self) -> float | None:
        """The highest value."""
        return max((value for value in self.values if value is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart: one measure, or the phases of a batch."""

    key: str
    title: str
    unit: str
    """`ms` or empty."""
    stacked: bool
    """Whether the lines are parts of a whole."""
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The charts of a connector, or of one task."""

    start_ms: int
    step_ms: int
    count: int
    """Number of samples."""
    charts: Sequence[Chart]
    silent: Sequence[str]
    """Workers that did not answer."""

    @property
    def minutes(self) -> int:
        """The time that they span."""
        return round(self.count * self.step_ms / 60_000)

    @property
    def has_times(self) -> bool:
        """Whether one of them shows times."""
        return any(chart.unit == "ms" for chart in self.charts)

    def to_json(self) -> dict[str, Any]:
        """Return what the script draws."""
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


def charts_of(series: object, task: int | None = None) -> Charts:
    """Return the charts of all tasks together, or of one task; charts without any value are left out."""
    found = mapping(series)
    tasks = [each for each in maps(found.get("tasks")) if task is None or whole(each, "id") == task]
    count = min(
        max((len(each) for own in tasks for each in own.values() if isinstance(each, list)), default=0),
        _MOST_SAMPLES,
    )
    rates = _by_task(tasks, "records_per_second", count)
    backlogs = _by_task(tasks, "backlog_records", count)
    times = {
        label: [_values(each, key, count) for each in tasks]
        for label, key in (("Poll", "poll_ms"), ("Write", "write_ms"), ("Commit", "commit_ms"))
    }
    phases = {label: _together(of_tasks, _mean, count) for label, of_tasks in times.items()}
    many = len(tasks) > 1
    charts = (
        _chart("rate", "Records per second", "", rates),
        _chart(
            "phases",
            "Batch by phase" + (", mean of tasks" if many else ""),
            "ms",
            phases,
            stacked=_belong_together(zip(*times.values(), strict=True)),
        ),
        _chart("backlog", "Backlog in records", "", backlogs),
    )
    return Charts(
        start_ms=whole(found, "start_ms") or 0,
        step_ms=max(whole(found, "step_ms") or 0, 1),
        count=count,
        charts=[chart for chart in charts if chart.lines],
        silent=texts(found.get("silent")),
    )


def line_path(values: Values, top: float) -> str:
    """Return the path of a line scaled to `top`, with a gap for each missing value; a single value is a dash."""
    step = WIDTH / max(len(values) - 1, 1)
    path: list[str] = []
    follows = False
    for at, value in enumerate(values):
        if value is not None:
            y = HEIGHT - 1 - max(value, 0.0) / (top or 1.0) * (HEIGHT - 2)
            path.append(f"{'L' if follows else 'M'}{at * step:.1f},{y:.1f}")
            if not follows and (at + 1 == len(values) or values[at + 1] is None):
                path.append("h2")
        follows = value is not None
    return "".join(path)


def _chart(key: str, title: str, unit: str, found: Mapping[str, Values], *, stacked: bool = False) -> Chart:
    known = {label: values for label, values in found.items() if any(each is not None for each in values)}
    top = max((each for values in known.values() for each in values if each is not None), default=0.0)
    lines = [Line(label=label, values=values, path=line_path(values, top)) for label, values in known.items()]
    return Chart(key=key, title=title, unit=unit, stacked=stacked, lines=lines)


def _by_task(tasks: Sequence[Mapping[str, Any]], key: str, count: int) -> dict[str, Values]:
    """Return a line for each of a few tasks, and for several one of all."""
    each = {f"Task {task.get('id')}": _values(task, key, count) for task in tasks}
    if len(tasks) <= 1:
        return dict(each)
    total = {"All tasks": _together(list(each.values()), sum, count)}
    return {**total, **each} if len(tasks) <= MOST_LINES else total


def _values(task: Mapping[str, Any], key: str, count: int) -> Values:
    """Return the values of a task; those that are missing at its end count as not known."""
    found = task.get(key)
    values: list[float | None] = [
        each if is_number(each) else None for each in (found if isinstance(found, list) else [])[:count]
    ]
    return values + [None] * (count - len(values))


def _together(each: Sequence[Values], join: Callable[[list[float]], float], count: int) -> Values:
    found: list[float | None] = []
    for at in range(count):
        known = [value for values in each if (value := values[at]) is not None]
        found.append(round(join(known), 3) if known else None)
    return found


def _belong_together(tasks: Iterable[Sequence[Values]]) -> bool:
    """Return whether the phases can be stacked as parts of one batch.

    At least half of the samples with any phase must have all phases. Java's runtime commits at an interval of its own.
    """
    some = every = 0
    for phases in tasks:
        known = [values for values in phases if any(value is not None for value in values)]
        counts = [sum(value is not None for value in sample) for sample in zip(*known, strict=True)]
        if len(known) > 1:
            some += sum(count > 0 for count in counts)
            every += sum(count == len(known) for count in counts)
    return every * 2 >= some


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
