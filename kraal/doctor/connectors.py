"""Checks of connectors and tasks, from `GET /connectors?expand=status&expand=info&expand=progress`. Pure.

Java workers ignore `progress`. Format: `{name: {"status": {…}, "info": {…}[, "progress": {…}]}}`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kraal.core.printable import join_first
from kraal.core.traces import root_cause
from kraal.doctor.finding import Finding, Level, passed

Expanded = Mapping[str, Any]
_FAILED: Final = "FAILED"
_MAX_SHOWN: Final = 5
_CONVERTER_KEYS: Final = ("key.converter", "value.converter", "header.converter")
_ALIAS_KEYS: Final = ("transforms", "predicates")
_CLASS_SUFFIXES: Final = ("Connector", "HeaderConverter", "Converter", "Transformation", "Predicate")


def list_workers(expanded: Expanded) -> list[str]:
    """Return the sorted ids, `host:port`, of the workers that run connectors or tasks."""
    ids = {str(part.get("worker_id") or "") for entry in expanded.values() for part in _instances(entry)}
    return sorted(ids - {""})


def check_failed(expanded: Expanded) -> Iterator[Finding]:
    """Yield a finding for each failed connector, and a finding for each connector with failed tasks."""
    has_no_failure = True
    for name, entry in expanded.items():
        fix = f"Correct the cause, then: kraal restart {shlex.quote(name)} --tasks --only-failed"
        connector, *tasks = _instances(entry)
        if connector.get("state") == _FAILED:
            what = f"The connector {name} has failed on {connector.get('worker_id')}: {_describe_cause(connector)}"
            yield Finding("connectors.failed", Level.ERROR, what, fix)
            has_no_failure = False
        if failures := [task for task in tasks if task.get("state") == _FAILED]:
            count, locations = len(failures), _format_workers(failures)
            what = f"{count} of {len(tasks)} tasks of {name} have failed, {locations}: {_describe_cause(failures[0])}"
            yield Finding("connectors.failed", Level.ERROR, what, fix)
            has_no_failure = False
    if has_no_failure:
        task_count = sum(len(_instances(entry)) - 1 for entry in expanded.values())
        yield passed(
            "connectors.failed", f"None of {len(expanded)} connectors and {task_count} tasks has failed"
        )


def check_stalled(expanded: Expanded) -> Iterator[Finding]:
    """Yield a finding for each stalled connector and task; only Kraal's workers report stalls."""
    if not any("progress" in entry for entry in expanded.values()):
        if expanded:
            yield Finding("connectors.stalled", Level.SKIPPED, "Java workers do not report stalled tasks")
        return
    causes = {name: (entry.get("progress") or {}).get("stall_cause") for name, entry in expanded.items()}
    for name, cause in causes.items():
        if cause:
            what = f"The connector {name} makes no progress: {cause}"
            yield Finding(
                "connectors.stalled", Level.WARNING, what, "Check the cause and the connector's log."
            )
    stalled_tasks = [
        (name, task)
        for name, entry in expanded.items()
        for task in (entry.get("progress") or {}).get("tasks", ())
        if task.get("stalled")
    ]
    for name, task in stalled_tasks:
        ms = task.get("step_ms")
        duration = f" for {ms / 1000:,.0f} s" if isinstance(ms, int | float) else ""
        cause = f": {task['stall_cause']}" if task.get("stall_cause") else ""
        what = f"Task {task.get('id')} of {name} on {task.get('worker_id')} has made no progress{duration}{cause}"
        fix = "Check the system that the task reads from or writes to; if a call hangs, restart the task."
        yield Finding("connectors.stalled", Level.WARNING, what, fix)
    silent_workers = sorted(
        {
            str(worker)
            for entry in expanded.values()
            for worker in (entry.get("progress") or {}).get("silent", ())
        }
    )
    if silent_workers:
        what = f"It is unknown whether the tasks on {', '.join(silent_workers)} are stalled"
        yield Finding("connectors.stalled", Level.SKIPPED, what)
    elif not stalled_tasks and not any(causes.values()):
        yield passed("connectors.stalled", "No task is stalled")


def check_plugins(
    url: str, expanded: Expanded, installed_plugins: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Yield a finding for each class in a connector's config that the worker at `url` does not list.

    For workers before Kafka 3.2, which list only connectors, only connector classes are checked.
    """
    known_names = {
        name for plugin in installed_plugins for name in _class_aliases(str(plugin.get("class") or ""))
    }
    lists_all_kinds = any(plugin.get("type") == "converter" for plugin in installed_plugins)
    connectors_by_class: dict[str, list[str]] = {}
    for name, entry in expanded.items():
        config: Mapping[str, Any] = (entry.get("info") or {}).get("config") or {}
        for class_name in _plugin_classes(config, includes_all_kinds=lists_all_kinds):
            if class_name not in known_names and "${" not in class_name:
                connectors_by_class.setdefault(class_name, []).append(name)
    for class_name, names in connectors_by_class.items():
        what = f"{url} lacks the plugin {class_name}, which is needed by {join_first(names, _MAX_SHOWN)}"
        fix = "Install the plugin on every worker, in a directory of plugin.path or with `kraal plugins add`."
        yield Finding("connectors.plugins", Level.WARNING, what, fix)
    if expanded and not connectors_by_class:
        yield passed("connectors.plugins", f"{url} has the plugins of all connectors")


def _instances(connector: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the statuses of a connector and its tasks."""
    status: Mapping[str, Any] = connector.get("status") or {}
    return [status.get("connector") or {}, *(status.get("tasks") or ())]


def _describe_cause(part: Mapping[str, Any]) -> str:
    return root_cause(part.get("trace")) or "no trace"


def _format_workers(tasks: Sequence[Mapping[str, Any]]) -> str:
    return join_first([f"{task.get('id')} on {task.get('worker_id')}" for task in tasks], _MAX_SHOWN)


def _plugin_classes(config: Mapping[str, Any], *, includes_all_kinds: bool) -> Iterator[str]:
    """Yield the plugin classes in a connector's config."""
    keys = ["connector.class"]
    if includes_all_kinds:
        keys += _CONVERTER_KEYS
        for list_key in _ALIAS_KEYS:
            aliases = [alias.strip() for alias in str(config.get(list_key) or "").split(",")]
            keys += [f"{list_key}.{alias}.type" for alias in aliases if alias]
    yield from dict.fromkeys(str(config[key]).strip() for key in keys if config.get(key))


def _class_aliases(class_name: str) -> Iterator[str]:
    """Yield the names by which a config may refer to a class. Source: PluginUtils.simpleName, prunedName."""
    simple_name = class_name.replace("$", ".").rpartition(".")[2]
    yield class_name
    yield simple_name
    yield from (
        simple_name[: simple_name.rfind(suffix)] for suffix in _CLASS_SUFFIXES if suffix in simple_name
    )
