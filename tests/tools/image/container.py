"""Runs containers of the image with crun.

The root filesystem is read-only. Containers have no capabilities and use the host's network.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.tools.image.build import buildah, enter_namespace, environment, inspect_image

_RUN_SCRIPT: Final = """
container=$1 bundle=$2; shift 2
mount --bind "$(buildah mount "$container")" "$bundle/rootfs"
exec crun --cgroup-manager=disabled --root "$bundle/state" run --bundle "$bundle" "$container"
"""
VOLUMES: Final = ("/tmp", "/var/lib/kraal")  # noqa: S108 - the volumes declared by the image
HOST_FILES: Final = (Path("/etc/hosts"), Path("/etc/resolv.conf"))
"""Files of this machine that are mounted into each container, as container engines do by default."""
NAMESPACES: Final = ("ipc", "mount", "pid", "uts")
STOP_TIMEOUT_S: Final = 70.0


@dataclass(frozen=True, slots=True)
class Container:
    """A container created from an image."""

    name: str
    directory: Path
    """Directory of the bundle, the log and the volumes."""
    config: Mapping[str, Any]

    def command(
        self, arguments: Sequence[str], mounts: Mapping[Path, str], *, uses_entry_point: bool = True
    ) -> list[str]:
        """Return the command that runs the image's entry point or another program of the image.

        Args:
            arguments: arguments that override the image's default arguments, unless empty.
            mounts: paths in the container by directory of this machine.
            uses_entry_point: whether the entry point receives the arguments. If false, they are a program and its
                arguments.
        """
        process = [
            *(self.config["Entrypoint"] if uses_entry_point else ()),
            *(arguments or self.config["Cmd"]),
        ]
        user, _, group = self.config["User"].partition(":")
        bundle = {
            "ociVersion": "1.0.2",
            "hostname": self.name,
            "root": {"path": "rootfs", "readonly": True},
            "process": {
                "user": {"uid": int(user), "gid": int(group)},
                "args": process,
                "env": self.config["Env"],
                "cwd": self.config["WorkingDir"],
                "noNewPrivileges": True,
                "capabilities": {},
            },
            "mounts": [
                *self._make_system_mounts(),
                *map(_make_bind_mount, HOST_FILES, HOST_FILES),
                *self._make_volume_mounts(int(user)),
                *map(_make_bind_mount, mounts, mounts.values()),
            ],
            "linux": {"namespaces": [{"type": name} for name in NAMESPACES]},
        }
        (self.directory / "rootfs").mkdir(exist_ok=True)
        (self.directory / "config.json").write_text(json.dumps(bundle), encoding="utf-8")
        return enter_namespace("sh", "-euc", _RUN_SCRIPT, "sh", self.name, str(self.directory))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the image. Return its exit code and output."""
        return subprocess.run(
            self.command(arguments, {}, uses_entry_point=False), env=environment(), capture_output=True, text=True,
            check=False, timeout=STOP_TIMEOUT_S,
        )  # fmt: skip

    @contextmanager
    def run_entry_point(
        self, mounts: Mapping[Path, str], *arguments: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run the entry point until the end of the block. Write its output to the file `log` in the directory."""
        with (self.directory / "log").open("wb") as log:
            process = subprocess.Popen(
                self.command(arguments, mounts), env=environment(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_TIMEOUT_S)

    def volume(self, name: str) -> Path:
        """Return the directory of this machine that is mounted as a volume of the container."""
        return self.directory / name.strip("/").replace("/", "-")

    def _make_volume_mounts(self, user: int) -> Iterator[dict[str, Any]]:
        for name in VOLUMES:
            volume = self.volume(name)
            volume.mkdir(exist_ok=True)
            shutil.chown(volume, user, user)
            yield _make_bind_mount(volume, name)

    @staticmethod
    def _make_system_mounts() -> Iterator[dict[str, Any]]:
        yield {"destination": "/proc", "type": "proc", "source": "proc"}
        yield {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]}
        yield {
            "destination": "/dev/shm",  # noqa: S108
            "type": "tmpfs",
            "source": "shm",
            "options": ["nosuid", "noexec", "nodev", "mode=1777"],
        }


@contextmanager
def container(image: str, directory: Path) -> Iterator[Container]:
    """Create a container with its files in `directory`, and remove the container at the end of the block."""
    name = buildah("from", "--pull-never", image, stdout_only=True).strip()
    try:
        yield Container(name, directory, inspect_image(image))
    finally:
        buildah("rm", name)


def _make_bind_mount(source: Path, destination: str | Path) -> dict[str, Any]:
    return {
        "destination": str(destination),
        "type": "bind",
        "source": str(source),
        "options": ["rbind", "rw", "nosuid", "nodev"],
    }
