"""Builds and runs the container image without a container engine, as root on Debian, as in CI.

buildah builds it from the Dockerfile on a base image that mmdebstrap creates from Debian's packages, like the published
one, with this machine's additional certificates. Layers are kept in Kraal's cache directory. The programs are unpacked
from Debian's packages; each command runs in a mount namespace with their libraries on top of the system's.

`python -m tests.tools.image.build [PLUGIN…]` builds it and prints its size and its layers.
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
EXCLUDED: Final = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
"""Paths that the published slim image also excludes, except for licences."""
NOT_SLIM: Final = (
    "usrmerge perl perl-modules-5.36 libperl5.36 libgdbm6 libgdbm-compat4 "
    "libfile-find-rule-perl libnumber-compare-perl libtext-glob-perl"
)
"""Packages that mmdebstrap installs but that the published image does not contain."""

_ENTER: Final = """
tools=$1 libraries=$2; shift 2
mount -t overlay overlay -o "lowerdir=$tools$libraries:$libraries" "$libraries"
mount -t tmpfs tmpfs /sys/fs/cgroup
PATH=$tools/usr/bin:$PATH exec "$@"
"""
"""Shell script that hides cgroups, because crun does not support machines with both versions of cgroups."""
_BASE: Final = """
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
    return ["unshare", "--mount", "sh", "-euc", _ENTER, "sh", str(tools_directory), libraries, *command]


def environment() -> dict[str, str]:
    """Return the environment of buildah, with the storage and settings in the cache directory."""
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
    """Return the directory of images; create it if it does not exist."""
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


def buildah(*arguments: str, text: bool = False) -> str:
    """Run buildah in the clone; return its output if `text` is true. Raises ScriptFailed."""
    return run("buildah", *arguments, text=text)


def run(*command: str, text: bool = False) -> str:
    """Run a command in the namespace with the clone as its directory. Raises ScriptFailed."""
    completed = subprocess.run(
        enter_namespace(*command), cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE if text else subprocess.STDOUT, timeout=BUILD_TIMEOUT_S,
    )  # fmt: skip
    if completed.returncode != 0:
        output = f"{completed.stdout}{completed.stderr or ''}".strip().splitlines()
        raise ScriptFailed(
            f"{command[0]} failed with exit code {completed.returncode}: " + "\n".join(output[-30:])
        )
    return completed.stdout


def build_image(plugins: Sequence[str] = ()) -> str:
    """Build the image, reusing unchanged layers; return its name. Raises ScriptFailed."""
    name = f"{IMAGE}-plugins" if plugins else IMAGE
    with (home() / ".lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if BASE not in buildah("images", "--format", "{{.Name}}", text=True).split():
            _create_base_image()
        arguments = {"BASE": BASE} | ({"PLUGINS": " ".join(plugins)} if plugins else {})
        options = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
        buildah("build", "--layers", "--pull-never", "--network=host", *options, "--tag", name, ".")
    return name


def inspect_image(name: str) -> Mapping[str, Any]:
    """Return the configuration in the manifest of an image."""
    config: Mapping[str, Any] = json.loads(buildah("inspect", "--type=image", name, text=True))["Docker"][
        "config"
    ]
    return config


def _create_base_image() -> None:
    archive = home() / "base.tar"
    excluded = [f"--dpkgopt=path-exclude={path}" for path in EXCLUDED]
    run(
        "mmdebstrap", "--variant=minbase", "--include=usr-is-merged", *excluded,
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        f'--customize-hook=chroot "$1" apt-get purge --yes {NOT_SLIM}',
        '--customize-hook=chroot "$1" apt-get clean',
        f'--customize-hook=mkdir -p "$1{CERTIFICATES}" && cp {CERTIFICATES}/* "$1{CERTIFICATES}" || true',
        "bookworm", str(archive), *MIRRORS,
    )  # fmt: skip
    run("sh", "-euc", _BASE, "sh", str(archive), BASE)
    archive.unlink()


@click.command()
@click.argument("plugins", nargs=-1)
def main(plugins: tuple[str, ...]) -> None:
    """Build the image with additional PLUGINS."""
    click.echo(buildah("images", build_image(plugins), text=True))


if __name__ == "__main__":
    try:
        main()
    except ScriptFailed as failure:
        sys.exit(str(failure))
