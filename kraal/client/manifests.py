"""Reads connector files, directories and standard input for `apply`, `diff` and `delete`.

Files have the formats of a standalone worker (flat JSON, a create request or properties), which are detected by
content. YAML files are detected by extension; each document has one of the JSON forms. An invalid file does not prevent
the other files from being read. Source: KIP-980; `kraal.config.connector.files`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraal.config.connector.files import ConnectorFile, parse_connector_file
from kraal.config.hidden import HIDDEN, list_masked_keys
from kraal.config.properties_file import read_text
from kraal.core.errors import BadRequest
from kraal.core.ids import Config, TargetState
from kraal.core.offsets import Pair

STDIN = "-"
YAML_SUFFIXES = (".yaml", ".yml")
SUFFIXES = (".json", ".properties", *YAML_SUFFIXES)
_FILE_KIND = "connector configuration"
_PROPERTY_PATTERN = re.compile(r"[^\s:=]+\s*=")
_OFFSETS_KEY = "initial_offsets"
_REST_STATES = {TargetState.STARTED: "RUNNING"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Connector definition in a file."""

    name: str
    config: Config
    """Config including `name`."""
    initial_state: str | None
    """Initial state, as named by the REST API; applies only when the connector is created."""
    initial_offsets: Sequence[Pair] | None = None
    """Initial offsets; apply only when the connector is created."""
    file_name: str
    """The file that defines the connector; `-` for standard input."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """Connectors in the order of the files; `errors` are error messages that contain the file name."""

    connectors: tuple[Manifest, ...]
    errors: tuple[str, ...]


def read_manifests(paths: Sequence[str], stdin: Iterable[str], *, recursive: bool) -> Manifests:
    """Read files, and from directories all files with one of `SUFFIXES` in sorted order. `-` means standard input."""
    manifests: list[Manifest] = []
    errors: list[str] = []
    for path in paths:
        try:
            texts = (
                [(STDIN, "".join(stdin))]
                if path == STDIN
                else list(_read_texts(Path(path), errors, recursive))
            )
        except BadRequest as exc:
            errors.append(str(exc))
            continue
        for file_name, text in texts:
            _read(text, file_name, manifests, errors)
    counts = Counter(manifest.name for manifest in manifests)
    for name in (name for name, count in counts.items() if count > 1):
        definitions = ", ".join(manifest.file_name for manifest in manifests if manifest.name == name)
        errors.append(
            f"Connector {name} is defined {counts[name]} times, so all definitions are ignored: {definitions}"
        )
    return Manifests(tuple(manifest for manifest in manifests if counts[manifest.name] == 1), tuple(errors))


def _read_texts(path: Path, errors: list[str], recursive: bool) -> Iterator[tuple[str, str]]:  # noqa: FBT001 - private function
    """Yield the name and text of each file. Raises BadRequest if `path` cannot be read or contains no files.

    An unreadable file in a directory is added to `errors` instead.
    """
    if not path.is_dir():
        yield str(path), read_text(path, _FILE_KIND)
        return
    try:
        files = sorted(
            file
            for file in (path.rglob("*") if recursive else path.iterdir())
            if file.suffix.lower() in SUFFIXES
            and not any(part.startswith(".") for part in file.relative_to(path).parts)
            and not file.is_dir()
        )
    except OSError as exc:
        raise BadRequest(f"Cannot read the directory '{path}': {exc.strerror or exc}.") from exc
    if not files:
        raise BadRequest(f"The directory '{path}' contains no connector files ({', '.join(SUFFIXES)}).")
    for file in files:
        try:
            yield str(file), read_text(file, _FILE_KIND)
        except BadRequest as exc:
            errors.append(str(exc))


def _read(text: str, file_name: str, manifests: list[Manifest], errors: list[str]) -> None:
    """Read the connectors of one file. An error in one YAML document invalidates the whole file."""
    try:
        parsed_manifests = [_to_manifest(definition, file_name) for definition in _parse(text, file_name)]
    except BadRequest as exc:
        errors.append(str(exc))
    else:
        manifests += parsed_manifests


def _parse(text: str, file_name: str) -> list[ConnectorFile]:
    if not _is_yaml(text, file_name):
        return [parse_connector_file(text, file_name)]
    from kraal.config.yaml_text import YamlError, convert_config_scalar, convert_scalar, read_yaml  # noqa: PLC0415 - late: most commands need no YAML

    try:
        documents = read_yaml(text, convert_config_scalar)
        typed_documents = read_yaml(text, convert_scalar) if any(map(_has_offsets, documents)) else documents
    except YamlError as exc:
        raise BadRequest(f"The {_FILE_KIND} '{file_name}' is not valid YAML: {exc}.") from exc
    if not documents:
        raise BadRequest(f"The {_FILE_KIND} '{file_name}' is empty.")
    if any(not isinstance(document, dict) for document in documents):
        raise BadRequest(f"The {_FILE_KIND} '{file_name}' is not a mapping of keys to values.")
    return [
        parse_connector_file(json.dumps(_with_typed_offsets(document, typed_document)), file_name)
        for document, typed_document in zip(documents, typed_documents, strict=True)
    ]


def _has_offsets(document: Any) -> bool:
    return isinstance(document, dict) and _OFFSETS_KEY in document


def _with_typed_offsets(document: Any, typed_document: Any) -> Any:
    """Return a document with typed offsets; numbers in configs remain strings."""
    return {**document, _OFFSETS_KEY: typed_document[_OFFSETS_KEY]} if _has_offsets(document) else document


def _is_yaml(text: str, file_name: str) -> bool:
    if text.lstrip().startswith("{"):
        return False
    if file_name != STDIN:
        return Path(file_name).suffix.lower() in YAML_SUFFIXES
    lines = (line.strip() for line in text.splitlines())
    first_line = next((line for line in lines if line and line[0] not in "#!"), "")
    return not _PROPERTY_PATTERN.match(first_line)


def _to_manifest(file: ConnectorFile, file_name: str) -> Manifest:
    masked_keys = list_masked_keys(file.config)
    if masked_keys:
        raise BadRequest(
            f"The {_FILE_KIND} '{file_name}' contains the masked value {HIDDEN} for {', '.join(masked_keys)}; replace "
            "it with the secret or with a reference such as ${file:…}"
        )
    if not file.name:
        raise BadRequest(f"The {_FILE_KIND} '{file_name}' has an empty name")
    state = file.initial_state
    return Manifest(
        name=file.name,
        config=file.config,
        initial_state=None if state is None else _REST_STATES.get(state, str(state)),
        initial_offsets=file.initial_offsets,
        file_name=file_name,
    )
