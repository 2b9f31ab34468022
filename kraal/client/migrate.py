"""Migrates connectors from another Connect cluster, one by one, over REST (KIP-980).

For each connector: stop it at the source, read its offsets, create it STOPPED at the target, write the offsets, and
start it at the target. All checks run before any connector is stopped. A connector never runs on both clusters: it
stays STOPPED at the source until a user deletes it. An error describes the connector's state on both clusters, and
how to continue or roll back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from kraal.client.rest import RequestRejected, Rest, Unreachable
from kraal.client.target import parse_target
from kraal.core.errors import KraalError
from kraal.core.progress import Progress

STOP_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.5
STATUS_TIMEOUT_S = 30.0
_TEMPORARY_STATES = frozenset({"UNASSIGNED", "RESTARTING"})
_URLS_HINT = "Check the URLs in --from and --to, and check that both workers run."

Print = Callable[[str], None]


class Cluster:
    """Client of a cluster, through any of its workers."""

    def __init__(self, url: str) -> None:
        """Parse the URL. Raises InvalidTarget."""
        self._target = parse_target(url)
        self.url = self._target.url
        """URL without credentials."""

    def ask(self, method: str, *segments: str, body: object = None) -> Any:
        """Send one request on a new connection. Raises the errors of `Rest.ask`."""
        try:
            with Rest(self._target) as rest:
                return rest.ask(method, *segments, body=body)
        except Unreachable as error:
            raise Unreachable(str(error), hint=_URLS_HINT) from error

    def state(self, name: str) -> tuple[str, int]:
        """Return a connector's state and number of tasks; wait for the first status of a new connector."""
        deadline = time.monotonic() + STATUS_TIMEOUT_S
        while True:
            try:
                status = self.ask("GET", "connectors", name, "status")
            except RequestRejected as error:
                is_new = error.status == HTTPStatus.NOT_FOUND and error.text.startswith("No status found")
                if not is_new or time.monotonic() >= deadline:
                    raise
            else:
                return status["connector"]["state"], len(status["tasks"])
            time.sleep(POLL_INTERVAL_S)

    def settled_state(self, name: str) -> str:
        """Return a connector's state; wait while it is UNASSIGNED or RESTARTING. Raises KraalError."""
        deadline = time.monotonic() + STATUS_TIMEOUT_S
        while (state := self.state(name)[0]) in _TEMPORARY_STATES:
            if time.monotonic() >= deadline:
                raise KraalError(
                    f"{name} has been {state} at {self.url} for {STATUS_TIMEOUT_S:g} s, so its target state is "
                    "unknown. Nothing was changed."
                )
            time.sleep(POLL_INTERVAL_S)
        return state

    def wait_until_stopped(self, name: str) -> None:
        """Wait until a connector is STOPPED and has no tasks. Raises KraalError."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while True:
            state, tasks = self.state(name)
            if (state, tasks) == ("STOPPED", 0):
                return
            if time.monotonic() >= deadline:
                raise KraalError(
                    f"{name} is {state} with {tasks} tasks at {self.url}, {STOP_TIMEOUT_S:g} s after it was stopped."
                )
            time.sleep(POLL_INTERVAL_S)


@dataclass(frozen=True, slots=True)
class Plan:
    """A connector that can be migrated."""

    name: str
    config: dict[str, Any]
    state: str
    """State on the source cluster: RUNNING, PAUSED, STOPPED or FAILED."""
    is_resumed: bool
    """Whether an earlier attempt created the connector on the target cluster, STOPPED and with the same config."""


def migrate(source: Cluster, target: Cluster, names: Sequence[str], *, dry_run: bool, say: Print) -> None:
    """Migrate the named connectors one after another; all connectors if `names` is empty. Raises KraalError."""
    plans = plan_all(source, target, names)
    for plan in plans:
        suffix = "; an earlier attempt already created it at the target" if plan.is_resumed else ""
        say(f"{plan.name} is {plan.state} at {source.url} and can be migrated{suffix}")
    if dry_run:
        return
    migrate_all(source, target, plans, say=say)


def plan_all(source: Cluster, target: Cluster, names: Sequence[str]) -> list[Plan]:
    """Check the named connectors, or all if `names` is empty. Raises KraalError if a connector cannot be migrated."""
    selected_names = names or source.ask("GET", "connectors")
    plans: list[Plan] = []
    with Progress("Checking connectors", len(selected_names)) as progress:
        for name in selected_names:
            progress.set_done(len(plans), name)
            plans.append(_plan(source, target, name))
    return plans


def migrate_all(
    source: Cluster,
    target: Cluster,
    plans: Sequence[Plan],
    *,
    say: Print,
    on_migrated: Callable[[Plan], None] = lambda _: None,
) -> None:
    """Migrate connectors one after another. Raises the errors of `migrate_connector`.

    `on_migrated` is called with the plan of each migrated connector.
    """
    with Progress("Migrating connectors", len(plans)) as progress:
        for number, plan in enumerate(plans):
            progress.set_done(number, plan.name)
            migrate_connector(source, target, plan, say)
            on_migrated(plan)


def _plan(source: Cluster, target: Cluster, name: str) -> Plan:
    """Check whether a connector can be migrated, without changing anything. Raises KraalError."""
    config = source.ask("GET", "connectors", name, "config")
    state = source.settled_state(name)
    source.ask("GET", "connectors", name, "offsets")
    is_resumed = _already_exists(target, name, config)
    try:
        target.ask("GET", "connectors", name, "offsets")
    except RequestRejected as error:
        is_missing = error.status == HTTPStatus.NOT_FOUND and error.text == f"Connector {name} not found"
        if not is_missing:
            raise KraalError(
                f"{target.url} does not accept offsets ({error}), and without them the connector would "
                "start from the beginning. Nothing was changed."
            ) from error
    validation = target.ask(
        "PUT", "connector-plugins", config["connector.class"], "config", "validate", body=config
    )
    if validation["error_count"]:
        errors = [text for key in validation["configs"] for text in key["value"]["errors"]]
        raise KraalError(
            f"{target.url} rejected the config of {name}: {'; '.join(errors)}. Nothing was changed."
        )
    return Plan(name, config, state, is_resumed)


def _already_exists(target: Cluster, name: str, config: dict[str, Any]) -> bool:
    try:
        existing_config = target.ask("GET", "connectors", name, "config")
    except RequestRejected as error:
        if error.is_not_found:
            return False
        raise
    state = target.settled_state(name)
    if existing_config != config or state != "STOPPED":
        raise KraalError(
            f"Connector {name} already exists at {target.url}: {state}, "
            f"{'with the same config' if existing_config == config else 'with another config'}. Nothing was changed."
        )
    return True


def migrate_connector(source: Cluster, target: Cluster, plan: Plan, say: Print) -> None:
    """Migrate one connector. Raises KraalError with the connector's state and how to continue."""
    name = plan.name
    target_state = "STOPPED, without its offsets" if plan.is_resumed else "not created"
    step = f"stopping it at {source.url}"
    try:
        source.ask("PUT", "connectors", name, "stop")
        source.wait_until_stopped(name)
        step = f"reading its offsets at {source.url}"
        offsets = source.ask("GET", "connectors", name, "offsets")
        step = f"creating it at {target.url}"
        if not plan.is_resumed:
            target_state = "not created, or STOPPED"
            body = {"name": name, "config": plan.config, "initial_state": "STOPPED"}
            target.ask("POST", "connectors", body=body)
        target_state = "STOPPED, without its offsets"
        target.wait_until_stopped(name)
        step = f"writing its offsets at {target.url}"
        if offsets["offsets"]:
            target.ask("PATCH", "connectors", name, "offsets", body=offsets)
        target_state = "STOPPED, with its offsets"
        step = f"starting it at {target.url}"
        if plan.state == "PAUSED":
            target.ask("PUT", "connectors", name, "pause")
        elif plan.state != "STOPPED":
            target.ask("PUT", "connectors", name, "resume")
    except (KraalError, KeyError, TypeError, ValueError) as error:
        path = f"/connectors/{quote(name, safe='')}"
        raise KraalError(
            f"{name}: {step} failed: {error}. The connector was {plan.state} at {source.url} and is now STOPPED or "
            f"stopping; at {target.url}, it is {target_state}. To continue: run the same command again; the connector "
            f"then stays STOPPED at {target.url} until you PUT {target.url}{path}/resume. To roll back: delete the "
            f"connector at {target.url} if it exists, then PUT {source.url}{path}/resume."
        ) from error
    say(
        f"Migrated {name} to {target.url} ({plan.state}). Delete it from {source.url} once you no longer need to roll "
        "back."
    )
