"""Builds and runs the container image without a container engine, as root on Debian, as in CI.

mmdebstrap creates a base image from Debian's packages. The base image is like the published one, but also contains
this machine's additional certificates. buildah builds the image from the Dockerfile on the base image. Layers are kept
in Kraal's cache directory.

buildah, crun and mmdebstrap are unpacked from Debian's packages. Each command runs in a mount namespace in which the
unpacked libraries override those of the system.

`python -m tests.tools.image.build [PLUGIN…]` builds the image, and prints its size.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from kraal.jars.directories import cache_dir
from scripts.harness.processes import ScriptFailed
from tests.tools.debian import unpack

ROOT: Final = Path(__file__).parents[3]
PACKAGES: Final = ("buildah", "crun", "mmdebstrap")
ALTERNATIVES: Final = "The image is built as root on Debian 12."
BUILD_TIMEOUT_S: Final = 1800.0
"""A build takes about five minutes on two idle cores, or one minute with the layers of an earlier build."""
BASE: Final = "localhost/kraal-base"
IMAGE: Final = "localhost/kraal-test"
CERTIFICATES: Final = Path("/usr/local/share/ca-certificates")
MIRRORS: Final = (
    "deb http://deb.debian.org/debian bookworm main",
    "deb http://deb.debian.org/debian bookworm-updates main",
    "deb http://deb.debian.org/debian-security bookworm-security main",
)
EXCLUDED_PATHS: Final = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
"""Paths that the published slim image also excludes, except for licences."""
PURGED_PACKAGES: Final = (
    "usrmerge perl perl-modules-5.36 libperl5.36 libgdbm6 libgdbm-compat4 "
    "libfile-find-rule-perl libnumber-compare-perl libtext-glob-perl"
)
"""Packages that mmdebstrap installs but that the published image does not contain."""

_ENTER_SCRIPT: Final = """
tools=$1 libraries=$2; shift 2
mount -t overlay overlay -o "lowerdir=$tools$libraries:$libraries" "$libraries"
mount -t tmpfs tmpfs /sys/fs/cgroup
PATH=$tools/usr/bin:$PATH exec "$@"
"""
"""Shell script that runs a command with the unpacked programs and libraries.

It hides cgroups, because crun does not support machines with both versions of cgroups.
"""
_BASE_SCRIPT: Final = """
container=$(buildah from scratch)
buildah add --quiet "$container" "$1" /
buildah config --cmd bash "$container"
buildah commit --quiet --rm "$container" "$2"
"""


def tools() -> Path:
    """Return the directory of the unpacked programs. Raises ScriptFailed."""
    return unpack("containers", *PACKAGES, alternatives=ALTERNATIVES, with_dependencies=True)


def enter_namespace(*command: str) -> list[str]:
    """Return a command that runs `command` in a mount namespace with buildah and crun."""
    if os.geteuid() != 0:
        raise ScriptFailed(f"Building the image requires root. {ALTERNATIVES}")
    tools_directory = tools()
    libraries = f"/usr/lib/{platform.machine()}-linux-gnu"
    return [
        "unshare",
        "--mount",
        "sh",
        "-euc",
        _ENTER_SCRIPT,
        "sh",
        str(tools_directory),
        libraries,
        *command,
    ]


def environment() -> dict[str, str]:
    """Return the environment of buildah, whose storage and settings are in the cache directory."""
    variables = {
        "STORAGE_DRIVER": "overlay",
        "CONTAINERS_STORAGE_CONF": str(home() / "storage.conf"),
        "CONTAINERS_REGISTRIES_CONF": str(tools() / "etc/containers/registries.conf"),
        "HOME": str(home()),  # contains the image policy
        "BUILDAH_ISOLATION": "chroot",
        "BUILDAH_FORMAT": "docker",  # the only format with HEALTHCHECK
        "TMPDIR": str(home()),
    }
    return os.environ | variables


def home() -> Path:
    """Return the directory of images, which is created if it does not exist."""
    directory = cache_dir() / "image"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{directory / "images"}"\nrunroot = "{directory / "run"}"\n',
        encoding="utf-8",
    )
    policy = directory / ".config" / "containers" / "policy.json"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_bytes((tools() / "etc" / "containers" / "policy.json").read_bytes())
    return directory


def buildah(*arguments: str, stdout_only: bool = False) -> str:
    """Run buildah in the directory of the clone and return its output. Raises ScriptFailed.

    Args:
        arguments: the arguments of buildah.
        stdout_only: whether the output excludes standard error.
    """
    return run("buildah", *arguments, stdout_only=stdout_only)


def run(*command: str, stdout_only: bool = False) -> str:
    """Run a command in a mount namespace and in the directory of the clone. Return its output. Raises ScriptFailed.

    Args:
        command: the command.
        stdout_only: whether the output excludes standard error.
    """
    result = subprocess.run(
        enter_namespace(*command), cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE if stdout_only else subprocess.STDOUT, timeout=BUILD_TIMEOUT_S,
    )  # fmt: skip
    if result.returncode != 0:
        output = f"{result.stdout}{result.stderr or ''}".strip().splitlines()
        raise ScriptFailed(
            f"{command[0]} failed with exit code {result.returncode}: " + "\n".join(output[-30:])
        )
    return result.stdout


def build_image(plugins: Sequence[str] = ()) -> str:
    """Build the image, reusing cached layers, and return its name. Raises ScriptFailed."""
    name = f"{IMAGE}-plugins" if plugins else IMAGE
    with (home() / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if BASE not in buildah("images", "--format", "{{.Name}}", stdout_only=True).split():
            _create_base_image()
        arguments = {"BASE": BASE} | ({"PLUGINS": " ".join(plugins)} if plugins else {})
        options = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
        buildah("build", "--layers", "--pull-never", "--network=host", *options, "--tag", name, ".")
    return name


def inspect_image(name: str) -> Mapping[str, Any]:
    """Return the configuration in the manifest of an image."""
    config: Mapping[str, Any] = json.loads(buildah("inspect", "--type=image", name, stdout_only=True))[
        "Docker"
    ]["config"]
    return config


def _create_base_image() -> None:
    archive = home() / "base.tar"
    exclusions = [f"--dpkgopt=path-exclude={path}" for path in EXCLUDED_PATHS]
    run(
        "mmdebstrap", "--variant=minbase", "--include=usr-is-merged", *exclusions,
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        f'--customize-hook=chroot "$1" apt-get purge --yes {PURGED_PACKAGES}',
        '--customize-hook=chroot "$1" apt-get clean',
        f'--customize-hook=mkdir -p "$1{CERTIFICATES}" && cp {CERTIFICATES}/* "$1{CERTIFICATES}" || true',
        "bookworm", str(archive), *MIRRORS,
    )  # fmt: skip
    run("sh", "-euc", _BASE_SCRIPT, "sh", str(archive), BASE)
    archive.unlink()


@click.command()
@click.argument("plugins", nargs=-1)
def main(plugins: tuple[str, ...]) -> None:
    """Build the image with additional PLUGINS."""
    click.echo(buildah("images", build_image(plugins), stdout_only=True))


if __name__ == "__main__":
    try:
        main()
    except ScriptFailed as failure:
        sys.exit(str(failure))
