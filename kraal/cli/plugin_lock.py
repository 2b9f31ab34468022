"""`kraal plugins list|add|remove|lock`: show and change the plugin lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from kraal.client.command import ClientCommand, output_option
from kraal.client.output import emit, say
from kraal.client.rest import Rest
from kraal.client.status_tables import Statuses
from kraal.client.target import parse_target
from kraal.client.text import table
from kraal.client.wait import fetch
from kraal.config.connector.java_plugins import PATH
from kraal.config.worker.keys import PLUGINS_LOCK
from kraal.core.errors import HINT, KraalError
from kraal.core.printable import format_count
from kraal.core.progress import Progress
from kraal.plugin_lock import change
from kraal.plugin_lock.jars import name_archive
from kraal.plugin_lock.java import plugin_path
from kraal.plugin_lock.lock import (
    DEFAULT,
    Lock,
    LockedPlugin,
    PluginLockError,
    check_files,
    is_coordinates,
    read_lock,
)

_lock_option = click.option(
    "--lock",
    "path",
    type=click.Path(path_type=Path, dir_okay=False, resolve_path=True),
    default=DEFAULT,
    show_default=True,
    help="Plugin lock; its files are in the directory of the same name without .lock.",
)
_worker_option = click.option(
    "--worker",
    metavar="URL",
    help="Show which tasks a restart of the workers would stop, according to this worker.",
)
_requirements_argument = click.argument(
    "requirements", nargs=-1, required=True, metavar="COORDINATE|FILE|DIRECTORY|PACKAGE..."
)


@click.command(
    "add",
    cls=ClientCommand,
    short_help="Add jars, wheels and Java plugins to the plugin lock.",
    examples=(
        "kraal plugins add org.postgresql:postgresql:42.7.14",
        "kraal plugins add dist/kraal_orders-0.1.0-py3-none-any.whl --worker http://127.0.0.1:8083",
        "kraal plugins add kraal-orders==0.1.0 --lock /etc/kraal/plugins.lock",
        "kraal plugins add io.debezium:debezium-connector-postgres:tar.gz:plugin:3.7.0.Final",
        "kraal plugins add downloads/some-connector-1.2.zip downloads/other-all.jar ./own-connector/",
    ),
)
@_requirements_argument
@_lock_option
@_worker_option
@output_option
def add(requirements: tuple[str, ...], path: Path, worker: str | None, *, style: str) -> None:
    """Add plugins to the plugin lock: jars for Spark, wheels, and Java plugins.

    ORG:NAME:REVISION is a jar for Spark with its dependencies. FILE.whl, NAME and NAME==VERSION are wheels with their
    dependencies.

    Java plugins are connectors, transforms and converters of Kafka Connect. ORG:NAME:EXTENSION[:CLASSIFIER]:REVISION is
    a plugin in a Maven repository, FILE.tar.gz, FILE.tgz or FILE.zip is an archive, FILE.jar is an uber jar, and DIR/
    is a directory with the jars of one plugin. Each plugin is unpacked into a folder for plugin.path.

    Files are locked by sha256. Versions that are already locked or installed with Kraal do not change. Workers read the
    lock at startup.
    """
    _apply(path, lambda: change.add(path, requirements), worker, style)


@click.command(
    "remove",
    cls=ClientCommand,
    short_help="Remove plugins from the plugin lock.",
    examples=("kraal plugins remove org.postgresql:postgresql", "kraal plugins remove kraal-orders"),
)
@_requirements_argument
@_lock_option
@_worker_option
@output_option
def remove(requirements: tuple[str, ...], path: Path, worker: str | None, *, style: str) -> None:
    """Remove plugins and their unused dependencies from the plugin lock.

    The version is optional. A Java plugin that was added as a file or directory is named after it; see `kraal plugins
    list`.
    """
    _require_lock(path)
    _apply(path, lambda: change.remove(path, requirements), worker, style)


@click.command(
    "lock",
    cls=ClientCommand,
    short_help="Resolve the plugin lock again.",
    examples=("kraal plugins lock", "kraal plugins lock --lock /etc/kraal/plugins.lock"),
)
@_lock_option
@_worker_option
@output_option
def lock(path: Path, worker: str | None, *, style: str) -> None:
    """Resolve all added plugins again, which updates dependencies and restores missing files.

    Files and directories that were added locally do not change.
    """
    _require_lock(path)
    _apply(path, lambda: change.relock(path), worker, style)


@click.command(
    "list",
    cls=ClientCommand,
    short_help="Show the plugin lock.",
    examples=("kraal plugins list", "kraal plugins list --lock /etc/kraal/plugins.lock"),
)
@_lock_option
@output_option
def list_command(path: Path, *, style: str) -> None:
    """Show the plugin lock and verify its files. `kraal plugins` shows the plugins of a running worker."""
    lock = read_lock(path) if path.exists() else Lock()
    entries = [
        {**_as_data(kind, entry), "added": _is_added(lock, entry.name, entry.file)}
        for kind, entries in lock.by_kind
        for entry in entries
    ]
    if style != "table":
        emit(entries, style)
    elif not entries:
        click.echo(f"No plugins in {path}.", err=True)
    else:
        rows = [
            (entry["kind"], entry["name"], "added" if entry["added"] else "-", entry["sha256"])
            for entry in entries
        ]
        for line in table(("KIND", "NAME", "WHY", "SHA256"), rows, None):
            say(line)
    check_files(path, lock.entries)


def _as_data(kind: str, entry: LockedPlugin) -> dict[str, Any]:
    return {"kind": kind, "name": entry.name, "file": entry.file, "sha256": entry.sha256}


def _is_added(lock: Lock, name: str, file: str) -> bool:
    added_names = {requirement.partition("[")[0] for requirement in lock.added}
    return bool({name, file, name.partition("==")[0]} & added_names)


def _require_lock(path: Path) -> None:
    if not path.exists():
        raise PluginLockError(f"Plugin lock {path} does not exist; create it with `kraal plugins add`.")


def _require_worker() -> None:
    """Raise ModuleNotFoundError unless the worker's packages are installed, because a lock omits these packages."""
    if find_spec("pyspark") is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")


def _apply(path: Path, apply_change: Callable[[], change.Change], worker: str | None, style: str) -> None:
    _require_worker()
    with Progress("Changing the plugin lock"):
        result = apply_change()
    if style == "table":
        _print_change(path, result)
    if worker is None and style == "table":
        if result.added or result.removed:
            say("Use --worker URL to show which tasks a restart stops.")
        return
    stopped_tasks = (
        _fetch_stopped_tasks(path, worker)
        if worker is not None and (result.added or result.removed)
        else None
    )
    if style != "table":
        emit(_change_as_data(path, result, stopped_tasks), style)
    elif stopped_tasks is not None:
        say(tasks_text(stopped_tasks))


def _change_as_data(
    path: Path, result: change.Change, stopped_tasks: Mapping[str, Sequence[str]] | None
) -> dict[str, Any]:
    """Return a change as data for scripts; `stopped_tasks`: tasks by worker, or None if they are unknown."""
    kinds = {entry: kind for kind, entries in result.lock.by_kind for entry in entries}
    return {
        "lock": str(path),
        "new": [_as_data(kinds[entry], entry) for entry in result.added],
        "gone": [entry.name for entry in result.removed],
        "provided_by_spark": [*result.provided_jars],
        "restart_stops": stopped_tasks,
    }


def _print_change(path: Path, result: change.Change) -> None:
    for entry in result.removed:
        say(f"- {entry.name}")
    for entry in result.added:
        say(f"+ {entry.name} sha256 {entry.sha256}")
    if result.provided_jars:
        say(f"skipped because Spark provides them: {', '.join(result.provided_jars)}")
    for name in result.connector_jars:
        click.echo(
            f"{HINT}{name} contains Kafka Connect connectors, which workers do not load from Spark's jars. Remove it, "
            f"and add the connector's archive: {name_archive(name)}.",
            err=True,
        )
    if not result.added and not result.removed:
        say(f"{path}: no changes")
        return
    say(
        f"{path}: {format_count(len(result.lock.jars), 'jar')}, {format_count(len(result.lock.wheels), 'wheel')}, "
        f"{format_count(len(result.lock.java), 'Java plugin')}. Restart the workers with these properties:"
    )
    say(f"{PLUGINS_LOCK}={path}")
    if result.lock.java:
        say(f"{PATH}={plugin_path(path)}")
    if any(is_coordinates(changed_entry.name) for changed_entry in (*result.added, *result.removed)):
        say("Spark loads jars only when it starts, so a restart of connectors is not enough.")


def _fetch_stopped_tasks(path: Path, worker: str) -> dict[str, list[str]]:
    """Return the tasks that a restart of each worker would stop, by worker. Raises KraalError."""
    try:
        return tasks_by_worker(_fetch_statuses(worker))
    except KraalError as exc:
        raise KraalError(
            f"{path} was changed, but the tasks that a restart stops are unknown: {exc}", hint=exc.hint
        ) from exc


def _fetch_statuses(url: str) -> Statuses:
    target = parse_target(
        url,
        user=os.environ.get("KRAAL_USER"),
        password=os.environ.get("KRAAL_PASSWORD"),
        cacert=Path(path) if (path := os.environ.get("KRAAL_CACERT")) else None,
        timeout_s=30.0,
    )
    with Rest(target) as rest:
        return fetch(rest)


def tasks_by_worker(statuses: Statuses) -> dict[str, list[str]]:
    """Return the tasks that a restart of each worker would stop, by worker."""
    tasks: dict[str, list[str]] = {}
    for name, status in statuses.items():
        for task in (status or {}).get("tasks", ()):
            if _is_running(task):
                tasks.setdefault(str(task["worker_id"]), []).append(f"{name}-{task['id']}")
    return tasks


def tasks_text(stopped_tasks: Mapping[str, Sequence[str]]) -> str:
    """Format the result of `tasks_by_worker` as text."""
    if not stopped_tasks:
        return "No tasks are running; a restart of the workers stops none."
    return "\n".join(
        f"A restart of worker {worker} stops: {', '.join(sorted(tasks))}"
        for worker, tasks in sorted(stopped_tasks.items())
    )


def _is_running(task: Mapping[str, object]) -> bool:
    return task.get("state") in ("RUNNING", "PAUSED", "RESTARTING")
