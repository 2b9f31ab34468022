"""Config providers and override policies in `plugin.path`, which the process of Java plugins runs for the worker.

Source: Plugins.newConfigProvider, Worker, AbstractConfig.resolveConfigVariables, AbstractHerder.validateClientOverrides
(Kafka 4.4.0).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import override

from kraal.config.clients.overrides import OverridePolicy
from kraal.config.provider import ConfigData
from kraal.config.values import invalid
from kraal.config.worker.keys import POLICY
from kraal.core.errors import ConfigInvalid
from kraal.jars.java_module import java_class_path
from kraal.java_plugins.catalog import ServiceKind
from kraal.java_plugins.connector import config_value, describe_exception, refusal
from kraal.java_plugins.discovery import Discovery, plugin_path
from kraal.java_plugins.jvm import Jvm, PluginsAway
from kraal.java_plugins.parts import list_options, read_catalog
from kraal.plugins.config_providers import (
    ProviderClasses,
    Providers,
    RemoteProvider,
    open_providers,
    providers_used,
    resolve_worker,
)

if TYPE_CHECKING:
    from kraal.config.clients.overrides import ForeignPolicy, OverrideRequest
    from kraal.config.key import ConfigValue
    from kraal.java_plugins.catalog import JavaPlugin
    from kraal.java_plugins.hosts import PluginHosts

log = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 20.0
"""How long a request waits for the process: clients wait for 30 s or 60 s, and repeat a request that got a 503."""
_POLL_INTERVAL_S: Final = 0.5


class Process(Protocol):
    """A process that runs Java plugins, such as `PluginHost`. Any thread."""

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of `PluginWorker`. Raises PluginsAway, and py4j's error if the method throws."""

    def wait_until_up(self, timeout_s: float) -> bool:
        """Wait until there is a process to ask; return whether there is."""


class Asking:
    """Calls a process, and waits for it while it is away."""

    def __init__(
        self, process: Process, ends: Callable[[], bool], time_s: Callable[[], float] = time.monotonic
    ) -> None:
        """`ends`: whether the worker is shutting down, so that no call may wait."""
        self._process, self._ends, self._time_s = process, ends, time_s

    def ask(self, method: str, *arguments: object, within_s: float | None = None) -> Any:
        """Call a method; None: wait until the worker ends. Raises PluginsAway, and py4j's error."""
        until_s = None if within_s is None else self._time_s() + within_s
        while True:
            try:
                return self._process.ask(method, *arguments)
            except PluginsAway as exc:
                if self._ends() or (until_s is not None and self._time_s() >= until_s):
                    raise
                log.debug("Waiting for the JVM of Java plugins: %s", exc)
            self._process.wait_until_up(_POLL_INTERVAL_S)


class JavaProvider(RemoteProvider):
    """A config provider whose class is Java. The process creates it on first use, and closes it."""

    asking: ClassVar[Asking]
    next_number: ClassVar[Callable[[], int]]
    class_name: ClassVar[str]

    def __init__(self) -> None:
        self._number = type(self).next_number()
        self._params = "{}"

    @override
    def configure(self, params: Mapping[str, str]) -> None:
        """Store the parameters; an error of the class about them is raised by each `get`."""
        self._params = json.dumps(dict(params))

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        return self._get(path, keys, None)

    @override
    def get_in_time(self, path: str, keys: Collection[str]) -> ConfigData:
        return self._get(path, keys, CALL_TIMEOUT_S)

    def _get(self, path: str, keys: Collection[str], within_s: float | None) -> ConfigData:
        request = ("configValues", self._number, self.class_name, self._params, path, json.dumps([*keys]))
        try:
            answer = json.loads(self.asking.ask(*request, within_s=within_s))
        except PluginsAway:
            raise
        except Exception as exc:  # noqa: BLE001 - py4j's, for what the class has thrown
            failure = RuntimeError(describe_exception(exc)[1])
            failure.add_note(str(exc))
            raise failure from None
        return ConfigData(data=answer["data"], ttl_ms=answer["ttl"])


class JavaPolicy:
    """An override policy whose class is Java. Implements `ForeignPolicy`."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def validate(self, request: OverrideRequest) -> Sequence[ConfigValue]:
        """Return the result of the policy. Raises PluginsAway, PluginFailed."""
        about = {
            "name": request.name,
            "type": request.type,
            "class": request.class_name,
            "version": request.version,
            "client": request.client,
        }
        overrides = json.dumps(dict(request.overrides))
        try:
            answer = self._asking.ask("checkOverrides", json.dumps(about), overrides, within_s=CALL_TIMEOUT_S)
        except PluginsAway:
            raise
        except Exception as exc:
            raise refusal(exc) from exc
        return [config_value(each) for each in json.loads(answer)]


def open_services(
    worker: Mapping[str, str], hosts: PluginHosts | None, ends: Callable[[], bool]
) -> tuple[Providers, ForeignPolicy | None]:
    """Return a worker's config providers, and its override policy if that is in `plugin.path`.

    Args:
        worker: the worker's properties, with variables resolved.
        hosts: the processes of Java plugins; None without `plugin.path`, and if the worker was asked to end before it
            had scanned it. They are closed if an error is raised.
        ends: whether the worker was asked to end.

    Raises ConfigInvalid for classes that are nowhere.
    """
    providers = ProviderClasses.load()
    if hosts is None and ends():
        return Providers(), None
    if hosts is None:
        return open_providers(worker, providers), None
    host = hosts.shared
    asking = Asking(host, ends)
    try:
        classes = providers.with_others(_provider_classes(host.services, asking, host.next_number))
        return open_providers(worker, classes), _policy(worker, host.services, asking)
    except ConfigInvalid:
        hosts.close()
        raise


def _policy(
    worker: Mapping[str, str], services: Iterable[JavaPlugin], asking: Asking
) -> ForeignPolicy | None:
    name = worker.get(POLICY, "")
    if not name or OverridePolicy.parse(name) is not None:
        return None
    policies = [each for each in services if each.kind is ServiceKind.POLICY]
    if not any(name in each.service_names for each in policies):
        listed = ", ".join([*OverridePolicy, *sorted({each.class_name for each in policies})])
        text = invalid(POLICY, name, f"no such class is in plugin.path; available policies are: {listed}")
        raise ConfigInvalid(text, [text])
    return JavaPolicy(asking)


def _provider_classes(
    services: Iterable[JavaPlugin], asking: Asking, next_number: Callable[[], int]
) -> dict[str, Callable[[], object]]:
    """Return functions that return the classes of the config providers, by the full names of their Java classes."""

    def provider_class(name: str) -> Callable[[], object]:
        members = {"class_name": name, "asking": asking, "next_number": staticmethod(next_number)}
        return lambda: type(name.rpartition(".")[2], (JavaProvider,), members)

    return {
        each.class_name: provider_class(each.class_name)
        for each in services
        if each.kind is ServiceKind.CONFIG_PROVIDER
    }


class _OwnProcess:
    """A process that only resolves a worker's own config, before the worker can start another. One thread."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        """Start it. Raises PluginsAway, JarsUnavailable, JavaMissing."""
        discovery = Discovery(worker)
        files = discovery.next_files()
        self._jvm = Jvm(java_class_path(), list_options(worker), files)
        try:
            self.services = [each for each in read_catalog(discovery, self._describe) if each.is_service]
            discovery.store_scan(files, self._jvm.entry)
        except BaseException:
            self._jvm.close()
            raise
        self._last = 0

    def _describe(self) -> str:
        return str(self._jvm.entry.describe())

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def ask(self, method: str, *arguments: object) -> Any:
        return getattr(self._jvm.entry, method)(*arguments)

    def wait_until_up(self, timeout_s: float) -> bool:
        del timeout_s
        return self._jvm.alive

    def close(self) -> None:
        self._jvm.close()


def resolve_worker_config(raw: Mapping[str, str]) -> dict[str, str]:
    """Resolve a worker's own config with Kraal's providers, and those in `plugin.path` that it uses.

    The latter run in a process that ends before this returns. Raises the errors of `resolve_worker`; PluginsAway,
    JarsUnavailable and JavaMissing if that process does not start.
    """
    providers = ProviderClasses.load()
    if not plugin_path(raw) or all(not name or providers.has(name) for name in providers_used(raw).values()):
        return resolve_worker(raw, providers)
    log.info("Starting a JVM to resolve the worker's own properties with a config provider in plugin.path")
    with closing(_OwnProcess(raw)) as process:
        asking = Asking(process, lambda: True)
        return resolve_worker(
            raw, providers.with_others(_provider_classes(process.services, asking, process.next_number))
        )
