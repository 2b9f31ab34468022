"""Build the documentation site, and check it: `./scripts/docs`."""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from scripts.docs_site.check import problems
from scripts.docs_site.stage import stage
from scripts.environments import locked_environment

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ROOT / "build" / "docs" / "pages"
SITE: Final = ROOT / "build" / "docs" / "site"
ASSETS: Final = tuple(Path(__file__).with_name(name) for name in ("iframe-worker.js", "site.css"))
BUILD_TIMEOUT_S: Final = 300.0
QUIET: Final = {"NO_MKDOCS_2_WARNING": "1"}
"""Suppresses the theme's notice about its successor Zensical, which reads the same mkdocs.yml."""


def build() -> list[str]:
    """Build the site into SITE and return a message for each problem. Raises CalledProcessError, TimeoutExpired."""
    python = locked_environment("docs", ROOT / "requirements-docs.lock")
    stage(ROOT, PAGES)
    (PAGES / "assets").mkdir()
    for asset in ASSETS:
        (PAGES / "assets" / asset.name).write_bytes(asset.read_bytes())
    done = subprocess.run(
        [str(python), "-m", "mkdocs", "build", "--strict"],
        cwd=ROOT,
        env=os.environ | QUIET,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    warned = [line for line in done.stdout.splitlines() if line and not line.startswith("INFO")]
    if done.returncode and not warned:
        warned = [f"mkdocs exited with {done.returncode}."]
    return warned or problems(SITE)


def serve(port: int) -> None:
    """Serve the site on the loopback interface until Ctrl-C."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/ until Ctrl-C", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def main() -> int:
    """Build the site, print its problems, and serve it if requested."""
    parser = argparse.ArgumentParser(prog="./scripts/docs", description=__doc__)
    parser.add_argument(
        "--serve", action="store_true", help="serve the site on the loopback interface afterwards"
    )
    parser.add_argument("--port", type=int, default=8000, help="port to serve it on (default: 8000)")
    arguments = parser.parse_args()
    if faults := build():
        print("\n".join(faults), file=sys.stderr)
        return 1
    pages = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{pages} pages in {SITE.relative_to(ROOT)}; open index.html there, with or without a server")
    if arguments.serve:
        serve(arguments.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
