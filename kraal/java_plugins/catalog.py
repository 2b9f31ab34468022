"""The catalog of Java plugins in `plugin.path`, cached so that REST can list it at once.

Shape: a JSON array of `{"class","kind","version","location","keys":[…],"task_class"?,"error"?,"lasts"?}`; each key is a
`ConfigKeyInfo` of the REST API. Config providers and override policies, which REST does not list, have no keys.
The cache's file name is a digest of `plugin.path`, `plugin.discovery`, the names, sizes and times of all files there,
Kafka's jars and the version of Java. Source: Plugins, AbstractHerder.convertConfigKey (Kafka 4.4.0).

The scan of the process is cached likewise: the classes of all plugins, also of Kafka's own, so that later processes
need not scan. Source: PluginScanner (Kafka 4.4.0).
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
from kraal.jars.java_module import runtime
from kraal.jars.places import cache_dir
from kraal.plugins.entries import PluginKind

log = logging.getLogger(__name__)

UNUSED_S: Final = 30 * 24 * 3600
"""How long a cached catalog is kept after its last use, in seconds."""
_FORMAT: Final = "3"
"""Part of the digest; changes with the shape."""


class ServiceKind(StrEnum):
    """The kinds of Java plugins that workers use, and connectors do not. Source: PluginType (Kafka 4.4.0)."""

    CONFIG_PROVIDER = "configprovider"
    POLICY = "connector_client_config_override_policy"


_ENDINGS: Final = {
    ServiceKind.CONFIG_PROVIDER: "ConfigProvider",
    ServiceKind.POLICY: "ConnectorClientConfigOverridePolicy",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaPlugin:
    """One class in one role."""

    class_name: str
    kind: PluginKind | ServiceKind
    version: str
    location: str
    config_def: ConfigDef
    task_class: str
    """Connectors: the class of their tasks; empty if it is known only when they run."""

    @property
    def is_connector(self) -> bool:
        """Whether it is a source or a sink."""
        return self.kind in (PluginKind.SOURCE, PluginKind.SINK)

    @property
    def is_service(self) -> bool:
        """Whether it is a config provider or a policy."""
        return isinstance(self.kind, ServiceKind)

    @property
    def service_names(self) -> frozenset[str]:
        """The full and the short names of a config provider or policy. Source: PluginUtils.simpleName, prunedName."""
        simple = self.class_name.replace("$", ".").rpartition(".")[2]
        return frozenset(
            {self.class_name, simple, simple.removesuffix(_ENDINGS[ServiceKind(self.kind)]) or simple}
        )


def parse_catalog(text: str) -> list[JavaPlugin]:
    """Parse a catalog, which may have several versions of a class. Raises ValueError or KeyError for other text."""
    return [_plugin(each) for each in json.loads(text)]


def has_passing_errors(text: str) -> bool:
    """Whether some plugin could not be described, perhaps only this time: not for a class that is missing."""
    return any("error" in each and not each.get("lasts") for each in json.loads(text))


def compute_digest(plugin_path: Iterable[str], discovery: str) -> str:
    """Return the digest of all that decides which plugins there are. Reads the names of all files."""
    digest = hashlib.sha256(f"{_FORMAT}\n{discovery}\n{runtime()}\n".encode())
    for place in plugin_path:
        digest.update(f"{place}\n".encode())
        for path in _files(Path(place)):
            with contextlib.suppress(OSError):
                about = path.stat()
                digest.update(f"{path}\n{about.st_size}\n{about.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def read_cached(digest: str) -> list[JavaPlugin] | None:
    """Return the catalog that was stored for a digest, if it can be read, and note that it was used."""
    plugins = peek(digest)
    if plugins is not None:
        with contextlib.suppress(OSError):  # another user's; it is kept as long as its owner uses it
            os.utime(_place(digest))
    return plugins


def peek(digest: str) -> list[JavaPlugin] | None:
    """Return the catalog that was stored for a digest, if it can be read. Writes nothing."""
    try:
        return parse_catalog(_place(digest).read_text("utf-8"))
    except (OSError, ValueError, KeyError):
        return None


def cached_scan(digest: str) -> str | None:
    """Return the scan that was stored for a digest, if it can be read, and note that it was used."""
    place = _scan_place(digest)
    try:
        text = place.read_text("utf-8")
        json.loads(text)
    except (OSError, ValueError):
        return None
    with contextlib.suppress(OSError):  # another user's
        os.utime(place)
    return text


def store_scan(digest: str, text: str) -> None:
    """Store a scan. A failure costs only the time of another one."""
    _write(_scan_place(digest), text)


def store(digest: str, text: str) -> None:
    """Store a catalog, and remove those that no worker has used for `UNUSED_S`.

    A failure costs only the time of another scan.
    """
    place = _place(digest)
    _write(place, text)
    with contextlib.suppress(OSError):
        for each in place.parent.iterdir():
            if time.time() - each.stat().st_mtime > UNUSED_S:
                each.unlink()


def _write(place: Path, text: str) -> None:
    fresh = place.with_suffix(f".{os.getpid()}")
    try:
        make_directory(place.parent, SHARED_DIRECTORY)
        with open(fresh, "w", encoding="utf-8", opener=shared_opener) as file:
            file.write(text)
        fresh.replace(place)
    except OSError as exc:
        log.warning("Failed to cache the list of Java plugins in %s: %s", place, exc)


def _place(digest: str) -> Path:
    return cache_dir() / "plugins" / f"{digest}.json"


def _scan_place(digest: str) -> Path:
    return cache_dir() / "plugins" / f"{digest}.scan"


def _files(place: Path) -> Iterable[Path]:
    if place.is_file():
        return [place]
    return sorted(
        Path(folder) / name for folder, _, names in os.walk(place, followlinks=True) for name in names
    )


def _plugin(content: Mapping[str, Any]) -> JavaPlugin:
    if error := content.get("error"):
        log.warning(
            "The Java plugin %s in %s has no config keys here, because it could not be created: %s",
            content["class"],
            content["location"],
            error,
        )
    return JavaPlugin(
        class_name=content["class"],
        kind=_kind(content["kind"]),
        version=content["version"],
        location=content["location"],
        config_def=ConfigDef({key["name"]: _key(key) for key in content["keys"]}.values()),
        task_class=content.get("task_class", ""),
    )


def _kind(text: str) -> PluginKind | ServiceKind:
    services = {str(kind): kind for kind in ServiceKind}
    return services.get(text) or PluginKind(text)


def _key(info: Mapping[str, Any]) -> Key:
    kind = ConfigType(info["type"])
    return Key(
        name=info["name"],
        type=kind,
        default=REQUIRED if info["required"] else _default(info["name"], info["default_value"], kind),
        importance=Importance(info["importance"]),
        doc=info["documentation"],
        group=info["group"],
        order=info["order_in_group"],
        width=Width(info["width"]),
        display_name=info["display_name"],
        dependents=tuple(info["dependents"]),
        source="plugin",
    )


def _default(name: str, text: str | None, kind: ConfigType) -> object:
    if text is None:
        return None
    try:
        return parse_value(name, text, kind)
    except ValueError:
        return text
