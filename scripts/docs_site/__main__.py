"""Builds the documentation site and checks it: `./scripts/docs`."""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from scripts.docs_site.check import find_problems
from scripts.docs_site.pages import stage
from scripts.environments import locked_environment

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = ROOT / "build" / "docs" / "pages"
SITE: Final = ROOT / "build" / "docs" / "site"
ASSETS: Final = tuple(Path(__file__).with_name(name) for name in ("iframe-worker.js", "site.css"))
BUILD_TIMEOUT_S: Final = 300.0
ENVIRONMENT: Final = {"NO_MKDOCS_2_WARNING": "1"}
"""Suppresses the theme's notice about its successor Zensical, which reads the same mkdocs.yml."""


def build() -> list[str]:
    """Build the site into SITE and return a message for each problem. Raises CalledProcessError, TimeoutExpired."""
    python = locked_environment("docs", ROOT / "requirements-docs.lock")
    stage(ROOT, PAGES)
    (PAGES / "assets").mkdir()
    for asset in ASSETS:
        (PAGES / "assets" / asset.name).write_bytes(asset.read_bytes())
    completed = subprocess.run(
        [str(python), "-m", "mkdocs", "build", "--strict"],
        cwd=ROOT,
        env=os.environ | ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    warnings = [line for line in completed.stdout.splitlines() if line and not line.startswith("INFO")]
    if completed.returncode and not warnings:
        warnings = [f"mkdocs exited with {completed.returncode}."]
    return warnings or find_problems(SITE)


def serve(port: int) -> None:
    """Serve the site on the loopback interface until Ctrl-C."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"Serving on http://127.0.0.1:{server.server_port}/ (Ctrl-C to stop)", flush=True)
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
    parser.add_argument(
        "--port", type=int, default=8000, help="port on which the site is served (default: 8000)"
    )
    arguments = parser.parse_args()
    if problem_messages := build():
        print("\n".join(problem_messages), file=sys.stderr)
        return 1
    pages = sum(1 for _ in SITE.rglob("*.html"))
    print(
        f"Built {pages} pages in {SITE.relative_to(ROOT)}; index.html can be opened with or without a server"
    )
    if arguments.serve:
        serve(arguments.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
