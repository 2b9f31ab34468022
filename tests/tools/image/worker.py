"""Creates the files of a worker in a container of the image."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kraal.broker.broker import Broker

STRING_CONVERTER: Final = "org.apache.kafka.connect.storage.StringConverter"


def write_properties(
    directory: Path, broker: Broker, port: int, changes: Mapping[str, str] | None = None
) -> Path:
    """Create a directory for /etc/kraal that contains a worker's properties, and return its path.

    Args:
        directory: the path of the new directory.
        broker: the broker of the worker.
        port: the port of the REST API.
        changes: properties that are added or overridden.
    """
    group = f"image-{port}"
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": STRING_CONVERTER,
        "value.converter": STRING_CONVERTER,
        "kraal.data.dir": "/var/lib/kraal/data",
        "spark.master": "local[2]",
    }
    for kind in ("config", "offset", "status"):
        settings |= {f"{kind}.storage.topic": f"{group}-{kind}", f"{kind}.storage.replication.factor": "1"}
    directory.mkdir()
    text = "".join(f"{key}={value}\n" for key, value in {**settings, **(changes or {})}.items())
    (directory / "worker.properties").write_text(text, encoding="utf-8")
    return directory


def make_writable_directory(directory: Path) -> Path:
    """Create a directory that is writable by the container's user, and return its path."""
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def copy_files(files: Sequence[Path], directory: Path) -> Path:
    """Copy files to a new directory that is readable by the container's user, and return its path."""
    directory.mkdir()
    for file in files:
        shutil.copyfile(file, directory / file.name)
    return directory
