"""Reader for Java properties files. Source: Utils.loadProps (Kafka 4.4.0), java.util.Properties."""

from __future__ import annotations

from pathlib import Path

from kraal.config.properties_text import parse
from kraal.core.errors import BadRequest

MAX_BYTES = 10 * 1024 * 1024
"""Maximum size of a config file in bytes. Larger files are probably not config files."""


def read_text(path: str | Path, description: str) -> str:
    """Read a config file as UTF-8 or, failing that, as Latin-1, the encoding of properties files in Java.

    `description` describes the file in error messages. Raises BadRequest.
    """
    file = Path(path)
    try:
        if not file.is_file():
            reason = "it is not a file" if file.exists() else "there is no such file"
            raise BadRequest(f"Cannot read the {description} '{path}': {reason}.")
        if file.stat().st_size > MAX_BYTES:
            raise BadRequest(f"Cannot read the {description} '{path}': it is larger than {MAX_BYTES} bytes.")
        data = file.read_bytes()
    except OSError as exc:
        raise BadRequest(f"Cannot read the {description} '{path}': {exc.strerror or exc}.") from exc
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_properties(text: str, path: str | Path, description: str) -> dict[str, str]:
    """Parse the text of a properties file; the last of duplicate keys wins. Raises BadRequest."""
    try:
        return parse(text)
    except ValueError as exc:
        raise BadRequest(f"The {description} '{path}' is not a properties file: {exc}.") from exc


def read_properties(path: str | Path, description: str) -> dict[str, str]:
    """Read and parse a properties file. Raises BadRequest."""
    return parse_properties(read_text(path, description), path, description)
