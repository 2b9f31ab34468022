"""The config providers that ship with Kraal: properties files, directories of files, environment variables.

Source: FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider, AllowedPaths (Kafka 4.4.0).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import ClassVar

from typing_extensions import override

from kraal.config.java_regex import compile_pattern, java_regex
from kraal.config.key import ConfigDef, ConfigType, Key
from kraal.config.properties_text import parse
from kraal.config.provider import ConfigData, ConfigProvider
from kraal.core.errors import BadRequest, ProviderFailed

log = logging.getLogger(__name__)

_ALLOWED_PATHS = "allowed.paths"
_ALLOWLIST_PATTERN = "allowlist.pattern"
_ANY_NAME = ".*"


class _AllowedPaths:
    """The paths that a provider may read: those in `allowed.paths`, or all paths if that key is not set."""

    def __init__(self, params: Mapping[str, str]) -> None:
        """Parse `allowed.paths`. Raises BadRequest for a path that is not absolute or does not exist."""
        configured_paths = params.get(_ALLOWED_PATHS, "")
        self._allowed_paths = (
            [_resolve_path(os.path.normpath(path)) for path in configured_paths.split(",")]
            if configured_paths
            else None
        )

    def check_path(self, path: str) -> str | None:
        """Return the path to read, with links resolved if `allowed.paths` is set.

        If `allowed.paths` is set, a disallowed or missing path is logged, and the result is None.
        """
        if self._allowed_paths is None:
            return path
        with suppress(OSError, ValueError):
            real_path = PurePosixPath(os.path.realpath(path, strict=True))
            if any(real_path.is_relative_to(allowed_path) for allowed_path in self._allowed_paths):
                return str(real_path)
        log.warning("The path %s is not allowed to be accessed", path)
        return None


def _resolve_path(path: str) -> str:
    """Return an existing absolute path with links resolved. Raises BadRequest."""
    if not os.path.isabs(path):  # noqa: PTH117 - pathlib would normalize the configured text
        raise BadRequest(f"Path {path} is not absolute")
    if not os.path.exists(path):  # noqa: PTH110 - as above
        raise BadRequest(f"Path {path} does not exist")
    return os.path.realpath(path)


class _FileProvider(ConfigProvider):
    """Base class of providers that read only files in `allowed.paths`."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name=_ALLOWED_PATHS,
                type=ConfigType.LIST,
                default=None,
                doc="Absolute paths of existing files and directories that may be read, including everything below "
                "them. A path that is or contains a symbolic link must resolve to an allowed path. Default: all paths "
                "are allowed.",
                source="AllowedPaths",
            )
        ]
    )

    def __init__(self) -> None:
        self._paths = _AllowedPaths({})

    @override
    def configure(self, params: Mapping[str, str]) -> None:
        self._paths = _AllowedPaths(params)

    def _check_path(self, path: str) -> str | None:
        """Return the path to read; None for an empty or disallowed path."""
        return self._paths.check_path(path) if path else None


class FileConfigProvider(_FileProvider):
    """`${file:PATH:KEY}`: the value of a key in a properties file, in UTF-8."""

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        file = self._check_path(path)
        if file is None:
            return ConfigData()
        try:
            with open(file, encoding="utf-8", newline="") as stream:  # noqa: PTH123 - the path is not normalized
                values = parse(stream.read())
        except (OSError, ValueError) as exc:
            raise ProviderFailed(f"Could not read properties from file {path}") from exc
        return ConfigData(data={key: values[key] for key in keys if key in values})


class DirectoryConfigProvider(_FileProvider):
    """`${directory:PATH:KEY}`: the whole content of the file KEY in a directory, in UTF-8."""

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        directory = self._check_path(path)
        if directory is None:
            return ConfigData()
        try:
            if not os.path.isdir(directory):  # noqa: PTH112 - the path is not normalized
                log.warning("The path %s is not a directory", path)
                return ConfigData()
            # Accept only names in the directory's listing, so that a key cannot refer to a file elsewhere.
            with os.scandir(directory) as entries:
                files = {
                    entry.name: entry.path for entry in entries if entry.name in keys and entry.is_file()
                }
        except (OSError, ValueError) as exc:
            raise ProviderFailed(f"Could not list directory {directory}") from exc
        return ConfigData(data={name: _read_file(name, file) for name, file in files.items()})


def _read_file(name: str, file: str) -> str:
    try:
        with open(file, "rb") as stream:  # noqa: PTH123 - the path is not normalized
            return stream.read().decode("utf-8", "replace")
    except OSError as exc:
        raise ProviderFailed(f"Could not read file {file} for property {name}") from exc


class EnvVarConfigProvider(ConfigProvider):
    """`${env:NAME}`: an environment variable of the worker's process, if `allowlist.pattern` matches the name."""

    config_def: ClassVar[ConfigDef] = ConfigDef(
        [
            Key(
                name=_ALLOWLIST_PATTERN,
                type=ConfigType.STRING,
                default=_ANY_NAME,
                validator=java_regex,
                doc="Regular expression that matches the whole names of environment variables that may be read.",
                source="EnvVarConfigProvider.ALLOWLIST_PATTERN_CONFIG",
            )
        ]
    )

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)

    @override
    def configure(self, params: Mapping[str, str]) -> None:
        pattern = params.get(_ALLOWLIST_PATTERN, _ANY_NAME)
        try:
            name_pattern = compile_pattern(pattern)
        except ValueError as exc:
            raise BadRequest(
                f"{_ALLOWLIST_PATTERN} is not a valid regular expression: {pattern}: {exc}"
            ) from exc
        self._environment = {
            name: value for name, value in self._environment.items() if name_pattern.fullmatch(name)
        }

    @override
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        if path:
            raise ProviderFailed(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return ConfigData(data={key: self._environment[key] for key in keys if key in self._environment})
