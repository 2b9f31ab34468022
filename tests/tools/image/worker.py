"""A worker's files for a container of the image."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kraal.broker.broker import Broker

STRING: Final = "org.apache.kafka.connect.storage.StringConverter"


def properties(directory: Path, broker: Broker, port: int, changes: Mapping[str, str] | None = None) -> Path:
    """Make a directory for /etc/kraal with the file of a worker, whose settings `changes` override; return it."""
    group = f"image-{port}"
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": group,
        "listeners": f"http://127.0.0.1:{port}",
        "key.converter": STRING,
        "value.converter": STRING,
        "kraal.data.dir": "/var/lib/kraal/data",
        "spark.master": "local[2]",
    }
    for kind in ("config", "offset", "status"):
        settings |= {f"{kind}.storage.topic": f"{group}-{kind}", f"{kind}.storage.replication.factor": "1"}
    directory.mkdir()
    text = "".join(f"{key}={value}\n" for key, value in {**settings, **(changes or {})}.items())
    (directory / "worker.properties").write_text(text, encoding="utf-8")
    return directory


def writable(directory: Path) -> Path:
    """Make a directory that the user of the container may write, and return it."""
    directory.mkdir()
    directory.chmod(0o777)
    return directory


def copied(files: Sequence[Path], directory: Path) -> Path:
    """Copy files into a new directory from which the user of the container may read them, and return it."""
    directory.mkdir()
    for file in files:
        shutil.copyfile(file, directory / file.name)
    return directory
