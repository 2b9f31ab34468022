"""A host without a process: tests decide when it is up, and read its requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from kraal.java_plugins.catalog import JavaPlugin
from kraal.java_plugins.host import Listener
from kraal.java_plugins.jvm import PluginsAway


class FakeHost:
    """Implements what runs and connectors use of `PluginHost`; work is done when it is submitted, or later."""

    def __init__(self) -> None:
        self.is_up = False
        self.later: list[Callable[[], object]] | None = None
        """Work that was submitted and not done; None: it is done at once."""
        self.services: list[JavaPlugin] = []
        self.closed = False
        self.waited = 0
        """How often somebody waited for the process."""
        self.while_waited: list[Callable[[], object]] = []
        """What happens while somebody waits, one after the other."""
        self.starts = 0
        self.requests: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {"endTask": True}
        self.ended: list[str] = []
        self._numbers = itertools.count(1)
        self.listeners: dict[object, Listener] = {}

    @property
    def why_away(self) -> str | None:
        """Why the process is not up."""
        return None if self.is_up else "it starts"

    def up(self) -> None:
        """Be up from now on."""
        self.is_up = True
        self.starts += 1
        for each in list(self.listeners.values()):
            each.on_up()

    def down(self) -> None:
        """Have the process ended."""
        self.is_up = False
        for each in list(self.listeners.values()):
            each.on_down("it was killed")

    def tell(self, key: object, what: str, detail: object = None) -> None:
        """Have the process report something."""
        self.listeners[key].event({"what": what, "detail": detail})

    def follow(self, key: object, listener: Listener) -> None:
        """Remember a listener."""
        self.listeners[key] = listener
        if self.is_up:
            listener.on_up()

    def forget(self, key: object) -> None:
        """Forget a listener."""
        self.listeners.pop(key, None)

    def next_number(self) -> int:
        """Return the next number."""
        return next(self._numbers)

    def end_process(self, why: str) -> None:
        """Note why the process was ended."""
        self.ended.append(why)

    def ask(self, method: str, *arguments: object) -> Any:
        """Note a call and return its answer, or raise it."""
        if not self.is_up:
            raise PluginsAway("it starts")
        self.requests.append((method, *arguments))
        answer = self.answers.get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def wait_until_up(self, timeout_s: float) -> bool:
        """Return whether it is up, without waiting."""
        del timeout_s
        self.waited += 1
        for action in self.while_waited[:1]:
            self.while_waited.remove(action)
            action()
        return self.is_up

    def submit(self, work: Callable[[], object], *, may_block: bool = False) -> None:
        """Do the work, or keep it for later."""
        del may_block
        if self.later is None:
            work()
        else:
            self.later.append(work)


class FakeHosts:
    """Implements what others use of `PluginHosts`: connectors have a host of their own if their config says so."""

    def __init__(self, shared: FakeHost | None = None) -> None:
        self.shared = FakeHost() if shared is None else shared
        self.own: dict[str, FakeHost] = {}
        self.given_back: list[FakeHost] = []
        self.kept: list[FakeHost] = []
        """Those that were given back for later."""
        self.stops: dict[str, Callable[[], None]] = {}

    def take(self, connector: str, config: Mapping[str, str]) -> FakeHost:
        """Return the host of a connector."""
        return (
            self.own.setdefault(connector, FakeHost()) if config.get("plugins.jvm") == "own" else self.shared
        )

    def give_back(self, host: FakeHost, *, later: bool = False) -> None:
        """Note it."""
        (self.kept if later else self.given_back).append(host)

    def add_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Remember what stops a connector."""
        self.stops[connector] = stop

    def remove_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Forget it."""
        assert self.stops.pop(connector) == stop

    def all(self) -> Mapping[str, FakeHost]:
        """Return all hosts."""
        return {"": self.shared, **self.own}

    def close(self) -> None:
        """Close the shared one."""
        self.shared.close()
