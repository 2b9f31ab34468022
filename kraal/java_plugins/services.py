"""Config providers and override policies in `plugin.path`, which run in the JVM of Java plugins.

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
from kraal.java_plugins.catalog import WorkerPluginKind
from kraal.java_plugins.connector import describe_exception, parse_config_value, to_plugin_failed
from kraal.java_plugins.discovery import Discovery, plugin_path
from kraal.java_plugins.jvm import Jvm, PluginsUnavailable
from kraal.java_plugins.parts import list_options, read_catalog
from kraal.plugins.config_providers import (
    ProviderClasses,
    Providers,
    RemoteProvider,
    list_used_providers,
    open_providers,
    resolve_worker,
)

if TYPE_CHECKING:
    from kraal.config.clients.overrides import OverrideRequest, PluginPolicy
    from kraal.config.key import ConfigValue
    from kraal.java_plugins.catalog import JavaPlugin
    from kraal.java_plugins.hosts import PluginHosts

log = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 20.0
"""How long a request waits for the JVM; less than the timeouts of clients (30 s or 60 s), which retry after a 503."""
_POLL_INTERVAL_S: Final = 0.5


class Process(Protocol):
    """A process that runs Java plugins, such as `PluginHost`. Thread-safe."""

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of `PluginWorker`. Raises PluginsUnavailable, and py4j's error if the method throws."""

    def wait_until_up(self, timeout_s: float) -> bool:
        """Wait until the process is up; return False on a timeout."""


class RetryingCaller:
    """A caller of a process's methods that retries while the process is down."""

    def __init__(
        self, process: Process, is_stopping: Callable[[], bool], time_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Create a caller. Calls are not retried if `is_stopping` returns True because the worker is shutting down."""
        self._process, self._is_stopping, self._time_s = process, is_stopping, time_s

    def ask(self, method: str, *arguments: object, timeout_s: float | None = None) -> Any:
        """Call a method; without a timeout, retry until the worker stops.

        Raises PluginsUnavailable, and py4j's error.
        """
        deadline_s = None if timeout_s is None else self._time_s() + timeout_s
        while True:
            try:
                return self._process.ask(method, *arguments)
            except PluginsUnavailable as exc:
                if self._is_stopping() or (deadline_s is not None and self._time_s() >= deadline_s):
                    raise
                log.debug("Waiting for the JVM of Java plugins: %s", exc)
            self._process.wait_until_up(_POLL_INTERVAL_S)


class JavaProvider(RemoteProvider):
    """A config provider implemented in Java. The JVM creates it on first use, and closes it."""

    caller: ClassVar[RetryingCaller]
    next_number: ClassVar[Callable[[], int]]
    class_name: ClassVar[str]

    def __init__(self) -> None:
        self._number = type(self).next_number()
        self._params = "{}"

    @override
    def configure(self, params: Mapping[str, str]) -> None:
        """Store the parameters; if the class rejects the parameters, `get` raises the error."""
        self._params = json.dumps(dict(params))

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        return self._get(path, keys, None)

    @override
    def get_with_timeout(self, path: str, keys: Collection[str]) -> ConfigData:
        return self._get(path, keys, CALL_TIMEOUT_S)

    def _get(self, path: str, keys: Collection[str], timeout_s: float | None) -> ConfigData:
        request = ("configValues", self._number, self.class_name, self._params, path, json.dumps([*keys]))
        try:
            response = json.loads(self.caller.ask(*request, timeout_s=timeout_s))
        except PluginsUnavailable:
            raise
        except Exception as exc:  # noqa: BLE001 - py4j's error for any exception of the class
            failure = RuntimeError(describe_exception(exc)[1])
            failure.add_note(str(exc))
            raise failure from None
        return ConfigData(data=response["data"], ttl_ms=response["ttl"])


class JavaPolicy:
    """An override policy implemented in Java. Implements `PluginPolicy`."""

    def __init__(self, caller: RetryingCaller) -> None:
        self._caller = caller

    def validate(self, request: OverrideRequest) -> Sequence[ConfigValue]:
        """Return the policy's validation results. Raises PluginsUnavailable, PluginFailed."""
        properties = {
            "name": request.name,
            "type": request.type,
            "class": request.class_name,
            "version": request.version,
            "client": request.client,
        }
        overrides = json.dumps(dict(request.overrides))
        try:
            response = self._caller.ask(
                "checkOverrides", json.dumps(properties), overrides, timeout_s=CALL_TIMEOUT_S
            )
        except PluginsUnavailable:
            raise
        except Exception as exc:
            raise to_plugin_failed(exc) from exc
        return [parse_config_value(info) for info in json.loads(response)]


def open_services(
    worker: Mapping[str, str], hosts: PluginHosts | None, is_stopping: Callable[[], bool]
) -> tuple[Providers, PluginPolicy | None]:
    """Return a worker's config providers, and its override policy if the policy is in `plugin.path`.

    Args:
        worker: the worker's properties, with variables resolved.
        hosts: the hosts of Java plugins; closed on an error. None without `plugin.path`, or if the worker was
            requested to stop before the scan had completed.
        is_stopping: returns whether the worker was requested to stop.

    Raises ConfigInvalid for unknown classes.
    """
    providers = ProviderClasses.load()
    if hosts is None and is_stopping():
        return Providers(), None
    if hosts is None:
        return open_providers(worker, providers), None
    host = hosts.shared
    caller = RetryingCaller(host, is_stopping)
    try:
        classes = providers.with_classes(_provider_loaders(host.services, caller, host.next_number))
        return open_providers(worker, classes), _find_policy(worker, host.services, caller)
    except ConfigInvalid:
        hosts.close()
        raise


def _find_policy(
    worker: Mapping[str, str], services: Iterable[JavaPlugin], caller: RetryingCaller
) -> PluginPolicy | None:
    name = worker.get(POLICY, "")
    if not name or OverridePolicy.parse(name) is not None:
        return None
    policies = [plugin for plugin in services if plugin.kind is WorkerPluginKind.POLICY]
    if not any(name in plugin.service_names for plugin in policies):
        available = ", ".join([*OverridePolicy, *sorted({plugin.class_name for plugin in policies})])
        text = invalid(POLICY, name, f"no such class is in plugin.path; available policies are: {available}")
        raise ConfigInvalid(text, [text])
    return JavaPolicy(caller)


def _provider_loaders(
    services: Iterable[JavaPlugin], caller: RetryingCaller, next_number: Callable[[], int]
) -> dict[str, Callable[[], object]]:
    """Return functions that create the classes of the config providers, by the full names of their Java classes."""

    def loader(name: str) -> Callable[[], object]:
        members = {"class_name": name, "caller": caller, "next_number": staticmethod(next_number)}
        return lambda: type(name.rpartition(".")[2], (JavaProvider,), members)

    return {
        plugin.class_name: loader(plugin.class_name)
        for plugin in services
        if plugin.kind is WorkerPluginKind.CONFIG_PROVIDER
    }


class _TemporaryProcess:
    """A process that only resolves a worker's config, before the worker starts its JVMs. Not thread-safe."""

    def __init__(self, worker: Mapping[str, str]) -> None:
        """Start the process. Raises PluginsUnavailable, JarsUnavailable, JavaMissing."""
        discovery = Discovery(worker)
        files = discovery.next_files()
        self._jvm = Jvm(java_class_path(), list_options(worker), files)
        try:
            self.services = [
                plugin for plugin in read_catalog(discovery, self._describe) if plugin.is_service
            ]
            discovery.store_scan(files, self._jvm.entry)
        except BaseException:
            self._jvm.close()
            raise
        self._last_number = 0

    def _describe(self) -> str:
        return str(self._jvm.entry.describe())

    def next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def ask(self, method: str, *arguments: object) -> Any:
        return getattr(self._jvm.entry, method)(*arguments)

    def wait_until_up(self, timeout_s: float) -> bool:
        del timeout_s
        return self._jvm.alive

    def close(self) -> None:
        self._jvm.close()


def resolve_worker_config(raw: Mapping[str, str]) -> dict[str, str]:
    """Resolve the variables in a worker's config with Kraal's providers, and with classes in `plugin.path`.

    These classes run in a temporary process. Raises the errors of `resolve_worker`; PluginsUnavailable, JarsUnavailable
    and JavaMissing if the process does not start.
    """
    providers = ProviderClasses.load()
    if not plugin_path(raw) or all(
        not name or providers.has(name) for name in list_used_providers(raw).values()
    ):
        return resolve_worker(raw, providers)
    log.info("Starting a JVM to resolve the worker's own properties with a config provider in plugin.path")
    with closing(_TemporaryProcess(raw)) as process:
        caller = RetryingCaller(process, lambda: True)
        return resolve_worker(
            raw, providers.with_classes(_provider_loaders(process.services, caller, process.next_number))
        )
