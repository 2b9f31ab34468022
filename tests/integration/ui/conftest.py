"""Fixtures: a shared cluster, a browser per test, and a visitor that opens pages and collects their errors."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright
from typing_extensions import override

from kraal.broker.broker import Broker, free_port
from kraal.testing import ProcessCluster
from scripts.harness.processes import ScriptFailed, wait_until
from tests.integration.ui.browser import run_browser
from tests.integration.ui.chromium import Chromium, chromium
from tests.integration.ui.stage.scene import UPDATES_PICTURES, Scene, make_letters, make_scene
from tests.integration.ui.visitor import WAIT_MS, Visitor
from tests.unit.web.api import Api
from web.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Playwright


HERE = Path(__file__).parent
_shared = pytest.StashKey[ExitStack]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Close shared resources after the last test in this directory instead of at the end of the session.

    Playwright's event loop prevents asynchronous tests from running, and other tests need the cluster's memory.
    """
    try:
        yield
    finally:  # even if the visitor fails the last test
        if (nextitem is None or HERE not in nextitem.path.parents) and _shared in item.session.stash:
            item.session.stash[_shared].close()


@pytest.fixture(scope="session")
def shared_stack(request: pytest.FixtureRequest) -> ExitStack:
    """Return a stack of resources to close after the last test in this directory."""
    return request.session.stash.setdefault(_shared, ExitStack())


@pytest.fixture(scope="session")
def program() -> Chromium:
    """Return the installed or downloaded browser. Fails the test with the reason if there is none."""
    try:
        return chromium()
    except ScriptFailed as failure:
        reason = str(failure)
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def playwright(shared_stack: ExitStack) -> Playwright:
    """Start Playwright, which takes half a second and is therefore shared."""
    expect.set_options(timeout=WAIT_MS)
    return shared_stack.enter_context(sync_playwright())


@pytest.fixture
def browser(playwright: Playwright, program: Chromium) -> Iterator[Browser]:
    """Run a browser for one test."""
    with run_browser(program, playwright) as new_browser:
        yield new_browser


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    """Yield a visitor that opens pages. The test fails if a page has unexpected errors."""
    new_visitor = Visitor(browser)
    yield new_visitor
    if problems := new_visitor.problems():
        pytest.fail("\n".join(["The pages had errors:", *problems]), pytrace=False)


@pytest.fixture(scope="session")
def cluster(
    shared_stack: ExitStack, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> ProcessCluster:
    """Run a shared cluster of two Kraal workers, which keep their ports when they are restarted."""
    new_cluster = ProcessCluster(
        directory=tmp_path_factory.mktemp("cluster"),
        bootstrap=kafka.bootstrap,
        properties={"offset.flush.interval.ms": "1000"},
    )
    shared_stack.callback(new_cluster.close)
    new_cluster.start_all(
        [new_cluster.add({"listeners": f"http://127.0.0.1:{free_port()}"}) for _ in range(2)]
    )
    return new_cluster


@pytest.fixture(scope="session")
def shared_scene(
    shared_stack: ExitStack, cluster: ProcessCluster, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Scene:
    """Create connectors on the shared cluster. If screenshots are updated, the paths of their files are neutral."""
    if not UPDATES_PICTURES:
        return make_scene(cluster, kafka.bootstrap, tmp_path_factory.mktemp("scene"))
    directory = Path(tempfile.gettempdir(), "shop")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    shared_stack.callback(shutil.rmtree, directory)
    return make_scene(cluster, kafka.bootstrap, directory)


@pytest.fixture
def scene(shared_scene: Scene) -> Scene:
    """Return the shared scene once rebalances of the previous test are over. Tests must restore its connectors."""
    shared_scene.settle()
    return shared_scene


@pytest.fixture
def sink_with_letters(scene: Scene) -> Iterator[str]:
    """Yield the name of a sink with two unreadable records in its dead letter queue.

    Tests must request this fixture before `visitor`, so that no open page requests a deleted sink.
    """
    name = make_letters(scene)
    yield name
    scene.cluster.delete(name)


@pytest.fixture
def api_and_url() -> Iterator[tuple[Api, str]]:
    """Serve the REST API and the dashboard of a worker without Kafka and Spark. Yield the API and its URL."""
    port = free_port()
    api = Api(Settings(advertised_url=f"http://127.0.0.1:{port}/"))
    server = uvicorn.Server(uvicorn.Config(api.app, port=port, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until("the worker listened", lambda: server.started, timeout_s=10, every_s=0.01)
    yield api, f"http://127.0.0.1:{port}"
    server.should_exit = server.force_exit = True
    thread.join(10)


@pytest.fixture
def serve_page() -> Iterator[Callable[[str, str], str]]:
    """Yield a function that serves a page and a script with a Content-Security-Policy, and returns the page's URL."""
    responses: dict[str, tuple[str, bytes]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = responses.get(self.path, ("text/plain", b""))
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", "default-src 'self'; frame-src http:")
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()

    def set_page(body: str, script: str = "") -> str:
        page = f'<!doctype html><html lang="en"><title>page</title><script src="/own.js"></script><main>{body}</main>'
        responses["/"] = ("text/html; charset=utf-8", page.encode())
        responses["/own.js"] = ("text/javascript", script.encode() or b"0")
        return f"http://127.0.0.1:{server.server_port}/"

    yield set_page
    server.shutdown()
    thread.join()
    server.server_close()
