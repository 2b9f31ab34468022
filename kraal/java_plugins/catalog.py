"""The catalog of Java plugins in `plugin.path`, cached so that REST can list them without a scan.

The format is a JSON array of `{"class","kind","version","location","keys":[…],"task_class"?,"error"?,"lasts"?}`, where
each key is a `ConfigKeyInfo` of the REST API. `error` is the reason why a plugin could not be described, and `lasts`
marks an error that will recur. Config providers and override policies, which REST does not list, have no keys. The
cache's file name is a digest of `plugin.path` and `plugin.discovery`, of Kafka's jars and the version of Java, and of
the names, sizes and modification times of all files in `plugin.path`.
Source: Plugins, AbstractHerder.convertConfigKey (Kafka 4.4.0).

The result of a scan (the classes of all plugins, including Kafka's own) is cached in the same way, so that later JVMs
skip the scan. Source: PluginScanner (Kafka 4.4.0).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from kraal.config.key import REQUIRED, ConfigDef, ConfigType, Importance, Key, Width
from kraal.config.values import parse_value
from kraal.core.private_files import SHARED_DIRECTORY, make_directory, shared_opener
from kraal.jars.directories import cache_dir
from kraal.jars.java_module import runtime_fingerprint
from kraal.plugins.entries import PluginKind

log = logging.getLogger(__name__)

RETENTION_S: Final = 30 * 24 * 3600
"""How long a cached file is kept after its last use, in seconds."""
_FORMAT: Final = "3"
"""The version of the cache's format; part of the digest."""


class WorkerPluginKind(StrEnum):
    """The kinds of Java plugins that the worker itself uses. Source: PluginType (Kafka 4.4.0)."""

    CONFIG_PROVIDER = "configprovider"
    POLICY = "connector_client_config_override_policy"


_SUFFIXES: Final = {
    WorkerPluginKind.CONFIG_PROVIDER: "ConfigProvider",
    WorkerPluginKind.POLICY: "ConnectorClientConfigOverridePolicy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaPlugin:
    """A Java class in one of its plugin roles."""

    class_name: str
    kind: PluginKind | WorkerPluginKind
    version: str
    location: str
    config_def: ConfigDef
    task_class: str
    """The task class of a connector; empty if only the running connector can return it."""

    @property
    def is_connector(self) -> bool:
        """Whether the plugin is a source or a sink."""
        return self.kind in (PluginKind.SOURCE, PluginKind.SINK)

    @property
    def is_service(self) -> bool:
        """Whether the plugin is a config provider or an override policy."""
        return isinstance(self.kind, WorkerPluginKind)

    @property
    def service_names(self) -> frozenset[str]:
        """The full name and aliases of a config provider or policy. Source: PluginUtils.simpleName, prunedName."""
        simple_name = self.class_name.replace("$", ".").rpartition(".")[2]
        return frozenset(
            {
                self.class_name,
                simple_name,
                simple_name.removesuffix(_SUFFIXES[WorkerPluginKind(self.kind)]) or simple_name,
            }
        )


def parse_catalog(text: str) -> list[JavaPlugin]:
    """Parse a catalog, which may contain several versions of a class. Raises ValueError, KeyError."""
    return [_parse_plugin(entry) for entry in json.loads(text)]


def has_transient_errors(text: str) -> bool:
    """Return whether a plugin could not be described because of an error that may not recur."""
    return any("error" in entry and not entry.get("lasts") for entry in json.loads(text))


def compute_digest(plugin_path: Iterable[str], discovery: str) -> str:
    """Return the digest of everything that determines the set of plugins. Stats all files in `plugin.path`."""
    digest = hashlib.sha256(f"{_FORMAT}\n{discovery}\n{runtime_fingerprint()}\n".encode())
    for element in plugin_path:
        digest.update(f"{element}\n".encode())
        for path in _list_files(Path(element)):
            with contextlib.suppress(OSError):
                stat = path.stat()
                digest.update(f"{path}\n{stat.st_size}\n{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def read_cached(digest: str) -> list[JavaPlugin] | None:
    """Return the cached catalog of a digest and update its last use; None if it cannot be read."""
    plugins = peek_cached(digest)
    if plugins is not None:
        with contextlib.suppress(OSError):  # another user owns the file
            os.utime(_catalog_path(digest))
    return plugins


def peek_cached(digest: str) -> list[JavaPlugin] | None:
    """Return the cached catalog of a digest without updating its last use; None if it cannot be read."""
    try:
        return parse_catalog(_catalog_path(digest).read_text("utf-8"))
    except (OSError, ValueError, KeyError):
        return None


def read_cached_scan(digest: str) -> str | None:
    """Return the cached scan of a digest and update its last use; None if it cannot be read."""
    path = _scan_path(digest)
    try:
        text = path.read_text("utf-8")
        json.loads(text)
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError):  # another user owns the file
        os.utime(path)
    return text


def store_scan(digest: str, text: str) -> None:
    """Store a scan. Failures are only logged, because a scan can be repeated."""
    _write(_scan_path(digest), text)


def store_catalog(digest: str, text: str) -> None:
    """Store a catalog, and remove the cached files that no worker has used for `RETENTION_S`.

    Failures are only logged, because a scan can be repeated.
    """
    path = _catalog_path(digest)
    _write(path, text)
    with contextlib.suppress(OSError):
        for cached_path in path.parent.iterdir():
            if time.time() - cached_path.stat().st_mtime > RETENTION_S:
                cached_path.unlink()


def _write(path: Path, text: str) -> None:
    temporary_path = path.with_suffix(f".{os.getpid()}")
    try:
        make_directory(path.parent, SHARED_DIRECTORY)
        with open(temporary_path, "w", encoding="utf-8", opener=shared_opener) as file:
            file.write(text)
        temporary_path.replace(path)
    except OSError as exc:
        log.warning("Failed to cache the list of Java plugins in %s: %s", path, exc)


def _catalog_path(digest: str) -> Path:
    return cache_dir() / "plugins" / f"{digest}.json"


def _scan_path(digest: str) -> Path:
    return cache_dir() / "plugins" / f"{digest}.scan"


def _list_files(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    return sorted(
        Path(folder) / name for folder, _, names in os.walk(path, followlinks=True) for name in names
    )


def _parse_plugin(content: Mapping[str, Any]) -> JavaPlugin:
    if error := content.get("error"):
        log.warning(
            "Listing the Java plugin %s in %s without config keys, because it could not be described: %s",
            content["class"],
            content["location"],
            error,
        )
    return JavaPlugin(
        class_name=content["class"],
        kind=_parse_kind(content["kind"]),
        version=content["version"],
        location=content["location"],
        config_def=ConfigDef({key["name"]: _parse_key(key) for key in content["keys"]}.values()),
        task_class=content.get("task_class", ""),
    )


def _parse_kind(text: str) -> PluginKind | WorkerPluginKind:
    services = {str(kind): kind for kind in WorkerPluginKind}
    return services.get(text) or PluginKind(text)


def _parse_key(info: Mapping[str, Any]) -> Key:
    kind = ConfigType(info["type"])
    return Key(
        name=info["name"],
        type=kind,
        default=REQUIRED if info["required"] else _parse_default(info["name"], info["default_value"], kind),
        importance=Importance(info["importance"]),
        doc=info["documentation"],
        group=info["group"],
        order=info["order_in_group"],
        width=Width(info["width"]),
        display_name=info["display_name"],
        dependents=tuple(info["dependents"]),
        source="plugin",
    )


def _parse_default(name: str, text: str | None, kind: ConfigType) -> object:
    if text is None:
        return None
    try:
        return parse_value(name, text, kind)
    except ValueError:
        return text
