"""A host without a process: tests say when it is up, and see what was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kraal.java_plugins.host import Listener
from kraal.java_plugins.jvm import PluginsAway


class FakeHost:
    """Implements what runs and connectors use of `PluginHost`; work is done when it is submitted."""

    def __init__(self) -> None:
        self.is_up = False
        self.asked: list[tuple[Any, ...]] = []
        self.answers: dict[str, Any] = {"stopTask": True}
        self.listeners: dict[object, Listener] = {}

    @property
    def why_away(self) -> str | None:
        """Why the process is not up."""
        return None if self.is_up else "it starts"

    def up(self) -> None:
        """Be up from now on."""
        self.is_up = True
        for each in list(self.listeners.values()):
            each.up()

    def down(self) -> None:
        """Have the process ended."""
        self.is_up = False
        for each in list(self.listeners.values()):
            each.down("it was killed")

    def tell(self, key: object, what: str, detail: object = None) -> None:
        """Have the process report something."""
        self.listeners[key].event({"what": what, "detail": detail, "trace": detail})

    def follow(self, key: object, listener: Listener) -> None:
        """Remember a listener."""
        self.listeners[key] = listener
        if self.is_up:
            listener.up()

    def forget(self, key: object) -> None:
        """Forget a listener."""
        self.listeners.pop(key, None)

    def wait(self) -> None:
        """Raise PluginsAway unless the process is up."""
        if not self.is_up:
            raise PluginsAway("it starts")

    def ask(self, method: str, *arguments: object) -> Any:
        """Note a call and return its answer, or raise it."""
        self.wait()
        self.asked.append((method, *arguments))
        answer = self.answers.get(method)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def submit(self, work: Callable[[], None]) -> None:
        """Do the work."""
        work()
