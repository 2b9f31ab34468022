"""Tests for the protection of the dashboard: passwords, and rejection of cross-origin actions."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Error, expect

from kraal.broker.broker import Broker, free_port
from kraal.testing import ProcessCluster
from tests.fakes.kafka.certificates import PASSWORD as STORE_PASSWORD
from tests.fakes.kafka.certificates import make_authority
from tests.integration.ui.stage.scene import RUNNING, SOURCE, Scene, page_url

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
USER, PASSWORD = "ann", "pa55-of-ann"
JAAS = """KafkaConnect {{
  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
  file="{users}";
}};
"""


def test_cross_origin_page_cannot_act(
    scene: Scene, visitor: Visitor, serve_page: Callable[[str, str], str]
) -> None:
    form = f"""<h1>free of charge</h1><form method="post" action="{scene.page("actions")}">
        <input name="action" value="pause"><input name="name" value="{SOURCE}"></form>"""
    visitor.expect("403")
    page = visitor.open(serve_page(form, "addEventListener('load', () => document.forms[0].submit())"))
    page.wait_for_url(scene.page("actions"))
    expect(page.locator("body")).to_contain_text("does not come from a page of this dashboard")
    assert scene.worker.states(SOURCE) == RUNNING
    visitor.expect("frame-ancestors")
    framing_page = visitor.open(serve_page(f'<iframe src="{scene.page()}"></iframe>', ""))
    with pytest.raises(Error):
        framing_page.frame_locator("iframe").get_by_role("heading", name="Connectors").wait_for(timeout=1000)


def test_pages_and_updates_require_the_password_and_work_over_tls(
    kafka: Broker, visitor: Visitor, tmp_path: Path
) -> None:
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    users.write_text(f"{USER}={PASSWORD}\n", encoding="utf-8")
    jaas.write_text(JAAS.format(users=users), encoding="utf-8")
    store = (
        make_authority().issue_certificate("127.0.0.1", address="127.0.0.1").key_store(tmp_path / "rest.p12")
    )
    url = f"https://127.0.0.1:{free_port()}"
    properties = {
        "listeners": url,
        "listeners.https.ssl.keystore.location": str(store),
        "listeners.https.ssl.keystore.type": "PKCS12",
        "listeners.https.ssl.keystore.password": STORE_PASSWORD,
        "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
        "java.security.auth.login.config": str(jaas),
    }
    cluster = ProcessCluster(directory=tmp_path / "cluster", bootstrap=kafka.bootstrap, properties=properties)
    try:
        worker = cluster.add()
        worker.launch()
        worker.wait_until("REST listened", lambda: "REST listens at" in worker.log_text())
        visitor.expect("401")
        anonymous_page = visitor.open(page_url(url), ignore_https_errors=True)
        expect(anonymous_page.locator("body")).to_contain_text("User cannot access the resource.")
        credentials = {"username": USER, "password": PASSWORD}
        page = visitor.open(page_url(url), ignore_https_errors=True, http_credentials=credentials)
        expect(page.get_by_text("This cluster has no connectors yet.")).to_be_visible()
        page.wait_for_timeout(1000)
        expect(page.locator("#away")).to_be_hidden()  # the stream of changes also uses the password
        assert base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode() not in page.content()
    finally:
        visitor.close()
        cluster.close()


def test_read_only_dashboard_rejects_crafted_actions(kafka: Broker, visitor: Visitor, tmp_path: Path) -> None:
    cluster = ProcessCluster(
        directory=tmp_path / "cluster", bootstrap=kafka.bootstrap, properties={"ui.read.only": "true"}
    )
    try:
        worker = cluster.add()
        worker.start()
        config = {"connector.class": "FileStreamSource", "topic": "t", "file": str(tmp_path / "in")}
        body = {"name": "still", "config": config, "initial_state": "STOPPED"}
        assert worker.ask("POST", "/connectors", body).status == 201
        worker.wait_for_states("still", ["STOPPED"])
        page = visitor.open(page_url(worker.url))
        expect(page.get_by_role("link", name="still")).to_be_visible()
        for path in (
            [],
            ["connectors", "still"],
            *(["connectors", "still", tab] for tab in ("config", "offsets")),
        ):
            page.goto(page_url(worker.url, *path))
            assert (
                page.locator("form[method=post], a[href*='/confirm'], a[href*='/edit'], #nav-create").count()
                == 0
            )
        page.keyboard.press("r")
        expect(page.get_by_role("dialog")).to_have_count(0)
        visitor.expect("403")
        post_script = """async ([path, fields]) => {
            const response = await fetch(path, {method: "POST", body: new URLSearchParams(fields)});
            return [response.status, await response.text()];
        }"""
        for target, fields in (
            ("/ui/actions", {"action": "resume", "name": "still"}),
            ("/ui/connectors/still/edit", {"do": "save", "v.topic": "u"}),
            ("/ui/connectors/still/offsets", {"do": "reset"}),
        ):
            status, text = page.evaluate(post_script, [target, fields])
            assert (status, "This dashboard is read-only." in text) == (403, True), target
        assert worker.states("still") == ["STOPPED"]
        assert worker.ask("GET", "/connectors/still/config").body == {**config, "name": "still"}
    finally:
        visitor.close()
        cluster.close()
