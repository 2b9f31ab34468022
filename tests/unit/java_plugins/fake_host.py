"""Fakes of plugin hosts that run no process. Tests control when a host is up, and inspect its requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from kraal.java_plugins.catalog import JavaPlugin
from kraal.java_plugins.host import Listener
from kraal.java_plugins.jvm import PluginsUnavailable


class FakeHost:
    """A fake of those methods of `PluginHost` that are called by runs and connectors."""

    def __init__(self) -> None:
        self.is_up = False
        self.pending_work: list[Callable[[], object]] | None = None
        """Submitted work, or None if submitted work is executed immediately."""
        self.services: list[JavaPlugin] = []
        self.closed = False
        self.wait_count = 0
        """The number of calls of `wait_until_up`."""
        self.wait_actions: list[Callable[[], object]] = []
        """Pending actions. Each call of `wait_until_up` removes and executes the first one."""
        self.starts = 0
        self.requests: list[tuple[Any, ...]] = []
        self.results: dict[str, Any] = {"endTask": True}
        self.kill_reasons: list[str] = []
        """The reasons passed to `kill_process`."""
        self._numbers = itertools.count(1)
        self.listeners: dict[object, Listener] = {}

    @property
    def down_reason(self) -> str | None:
        """The reason why the process is down."""
        return None if self.is_up else "it starts"

    def up(self) -> None:
        """Simulate the start of the process."""
        self.is_up = True
        self.starts += 1
        for listener in list(self.listeners.values()):
            listener.on_up()

    def down(self) -> None:
        """Simulate the exit of the process."""
        self.is_up = False
        for listener in list(self.listeners.values()):
            listener.on_down("it was killed")

    def emit(self, key: object, what: str, detail: object = None) -> None:
        """Simulate an event of the process."""
        self.listeners[key].event({"what": what, "detail": detail})

    def add_listener(self, key: object, listener: Listener) -> None:
        """Add a listener."""
        self.listeners[key] = listener
        if self.is_up:
            listener.on_up()

    def remove_listener(self, key: object) -> None:
        """Remove a listener."""
        self.listeners.pop(key, None)

    def next_number(self) -> int:
        """Return the next run number."""
        return next(self._numbers)

    def kill_process(self, why: str) -> None:
        """Record the reason."""
        self.kill_reasons.append(why)

    def ask(self, method: str, *arguments: object) -> Any:
        """Record a call and return its configured result. If the result is an exception, raise it."""
        if not self.is_up:
            raise PluginsUnavailable("it starts")
        self.requests.append((method, *arguments))
        result = self.results.get(method)
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """Record the call."""
        self.closed = True

    def wait_until_up(self, timeout_s: float) -> bool:
        """Execute the next action of `wait_actions`, and return whether the process is up."""
        del timeout_s
        self.wait_count += 1
        for action in self.wait_actions[:1]:
            self.wait_actions.remove(action)
            action()
        return self.is_up

    def submit(self, work: Callable[[], object], *, may_block: bool = False) -> None:
        """Execute the work, or append it to `pending_work` if that is a list."""
        del may_block
        if self.pending_work is None:
            work()
        else:
            self.pending_work.append(work)


class FakeHosts:
    """A fake of `PluginHosts`. A connector has a dedicated host if its config sets `plugins.jvm=own`."""

    def __init__(self, shared: FakeHost | None = None) -> None:
        self.shared = FakeHost() if shared is None else shared
        self.own: dict[str, FakeHost] = {}
        self.released_hosts: list[FakeHost] = []
        self.hosts_released_later: list[FakeHost] = []
        """Hosts that were released with `later=True`."""
        self.stops: dict[str, Callable[[], None]] = {}

    def acquire(self, connector: str, config: Mapping[str, str]) -> FakeHost:
        """Return the host of a connector."""
        return (
            self.own.setdefault(connector, FakeHost()) if config.get("plugins.jvm") == "own" else self.shared
        )

    def release(self, host: FakeHost, *, later: bool = False) -> None:
        """Record the release."""
        (self.hosts_released_later if later else self.released_hosts).append(host)

    def add_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Store the stop function."""
        self.stops[connector] = stop

    def remove_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Remove the stop function."""
        assert self.stops.pop(connector) == stop

    def all(self) -> Mapping[str, FakeHost]:
        """Return all hosts."""
        return {"": self.shared, **self.own}

    def close(self) -> None:
        """Close the shared host."""
        self.shared.close()
