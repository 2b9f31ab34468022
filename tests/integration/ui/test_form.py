"""Tests for creating and editing connectors with the form and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from kraal.broker.records import read_topic
from tests.integration.ui.stage.axe import violations_in_both_schemes
from tests.integration.ui.stage.scene import FAILING_SINK, SECRET, Scene, count_transitions

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
PLUGIN = "org.apache.kafka.connect.file.FileStreamSourceConnector"
NAME = "made-by-form"


@pytest.fixture
def new_connector(scene: Scene) -> Iterator[str]:
    """Yield the name of a connector that the test creates. The connector is deleted after the test.

    Tests must request this fixture before `visitor`, so that no open page requests a deleted connector.
    """
    yield NAME
    scene.worker.ask("DELETE", f"/connectors/{NAME}")


def find_field(page: Page, key: str) -> Locator:
    return page.locator(f'[name="v.{key}"]')


def test_invalid_fields_are_marked_and_valid_form_creates_a_working_connector(
    scene: Scene, new_connector: str, visitor: Visitor
) -> None:
    file = scene.directory / "form.txt"
    file.write_text("by the form\n", encoding="utf-8")
    visitor.expect("422")
    page = visitor.open(scene.page("create", PLUGIN))
    find_field(page, "name").fill(new_connector)
    find_field(page, "tasks.max").fill("many")
    find_field(page, "file").fill(str(file))
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("2 problems")
    assert violations_in_both_schemes(page) == []
    validation = scene.worker.ask(
        "PUT",
        f"/connector-plugins/{PLUGIN}/config/validate",
        {"connector.class": PLUGIN, "name": new_connector, "tasks.max": "many", "file": str(file)},
    ).body
    errors = {
        entry["value"]["name"]: entry["value"]["errors"]
        for entry in validation["configs"]
        if entry["value"]["errors"]
    }
    assert errors.keys() == {"tasks.max", "topic"}
    for key, sentences in errors.items():
        expect(find_field(page, key)).to_have_attribute("aria-invalid", "true")
        described_by = find_field(page, key).get_attribute("aria-describedby") or ""
        assert page.locator(f"#{described_by.split()[-1]} p").all_inner_texts() == sentences
    expect(find_field(page, "file")).to_have_value(str(file))
    assert new_connector not in scene.get("/connectors")
    find_field(page, "tasks.max").fill("1")
    find_field(page, "topic").fill("by-form")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(new_connector)
    assert scene.get(f"/connectors/{new_connector}/config") == {
        "name": new_connector, "connector.class": PLUGIN, "tasks.max": "1", "file": str(file), "topic": "by-form",
    }  # fmt: skip
    scene.wait_until(
        "the line was in Kafka",
        lambda: (
            [record.value for record in read_topic(scene.bootstrap, "by-form", timeout_s=30)]
            == [b"by the form"]
        ),
    )


def test_json_config_creates_a_stopped_connector(scene: Scene, new_connector: str, visitor: Visitor) -> None:
    config = {"name": new_connector, "connector.class": PLUGIN, "topic": "by-json", "file": "/nowhere"}
    visitor.expect("422")
    page = visitor.open(scene.page("create"))
    page.locator("#json").fill("{not JSON")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations_in_both_schemes(page) == []
    page.locator("#json").fill(json.dumps(config))
    page.get_by_role("button", name="JSON").click()
    page.locator("#initial_state").select_option("STOPPED")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(new_connector)
    assert scene.get(f"/connectors/{new_connector}/config") == config
    scene.wait_for_states(new_connector, "STOPPED")


def test_change_shows_differences_first_and_keeps_the_secret(scene: Scene, visitor: Visitor) -> None:
    old_config = scene.get(f"/connectors/{FAILING_SINK}/config")
    page = visitor.open(scene.page("connectors", FAILING_SINK, "edit"))
    find_field(page, "file").fill(f"{old_config['file']}.2")
    page.get_by_role("button", name="Save…").click()
    difference = page.locator("#changes tbody tr")
    expect(difference).to_have_count(1)
    expect(difference).to_contain_text(f"{old_config['file']}.2")
    assert violations_in_both_schemes(page) == []
    assert scene.get(f"/connectors/{FAILING_SINK}/config") == old_config
    assert SECRET not in page.content()
    page.get_by_role("button", name="Save these changes").click()
    expect(page.locator("[data-result]")).to_be_visible()
    try:
        assert scene.get(f"/connectors/{FAILING_SINK}/config") == old_config | {
            "file": f"{old_config['file']}.2"
        }
        assert SECRET in json.dumps(old_config)
        page.goto(scene.page("connectors", FAILING_SINK, "config"))
        expect(page.locator("table.configs")).to_contain_text("[hidden]")
        assert SECRET not in page.content()
    finally:
        failures = count_transitions(scene, FAILING_SINK, "FAILED")
        scene.cluster.configure(FAILING_SINK, old_config)
        scene.wait_until(
            "the task failed again", lambda: count_transitions(scene, FAILING_SINK, "FAILED") > failures
        )
        scene.wait_for_states(FAILING_SINK, "RUNNING", "FAILED")


def test_second_tab_reports_that_the_config_has_changed(
    scene: Scene, new_connector: str, visitor: Visitor
) -> None:
    config = {"name": new_connector, "connector.class": PLUGIN, "topic": "tabs", "file": "/nowhere"}
    scene.cluster.create(new_connector, config, state="STOPPED")
    first_page = visitor.open(scene.page("connectors", new_connector, "edit"))
    visitor.expect("409")
    second_page = visitor.open(first_page.url, beside=first_page)
    for page, topic in ((first_page, "first"), (second_page, "second")):
        find_field(page, "topic").fill(topic)
        page.get_by_role("button", name="Save…").click()
        expect(page.locator("#changes")).to_be_visible()
    first_page.get_by_role("button", name="Save these changes").click()
    expect(first_page.locator("[data-result]")).to_be_visible()
    second_page.get_by_role("button", name="Save these changes").click()
    expect(second_page.locator("#conflict")).to_contain_text("nothing was saved")
    assert violations_in_both_schemes(second_page) == []
    expect(second_page.locator("#changes tbody tr")).to_contain_text("first")
    assert scene.get(f"/connectors/{new_connector}/config") == config | {"topic": "first"}
    second_page.get_by_role("button", name="Save…").click()
    second_page.get_by_role("button", name="Save these changes").click()
    expect(second_page.locator("[data-result]")).to_be_visible()
    assert scene.get(f"/connectors/{new_connector}/config") == config | {"topic": "second"}


@pytest.mark.slow
def test_example_creates_a_connector_and_previous_config_can_be_restored(
    scene: Scene, new_connector: str, visitor: Visitor
) -> None:
    file = scene.directory / "example.txt"
    page = visitor.open(scene.page("plugins"))
    page.get_by_role("link", name=PLUGIN.rpartition(".")[2], exact=True).click()
    page.get_by_role("link", name="Create from the example").click()
    for key, value in (("name", new_connector), ("file", str(file)), ("topic", "by-example")):
        find_field(page, key).fill(value)
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(new_connector)
    original_config = scene.get(f"/connectors/{new_connector}/config")
    assert (original_config["file"], original_config["topic"]) == (str(file), "by-example")
    scene.cluster.configure(new_connector, original_config | {"topic": "by-mistake"})
    page.goto(scene.page("connectors", new_connector, "config"))
    page.get_by_role("link", name="Edit with the config before this change").first.click()
    page.get_by_role("button", name="Save…").click()
    expect(page.locator("#changes tbody tr")).to_contain_text("by-example")
    page.get_by_role("button", name="Save these changes").click()
    expect(page.locator("[data-result]")).to_be_visible()
    assert scene.get(f"/connectors/{new_connector}/config") == original_config
    file.write_text("by the example\n", encoding="utf-8")
    scene.wait_until(
        "the line was in Kafka",
        lambda: (
            [record.value for record in read_topic(scene.bootstrap, "by-example", timeout_s=30)]
            == [b"by the example"]
        ),
    )


def test_connector_starts_from_the_offsets_in_its_form(
    scene: Scene, new_connector: str, visitor: Visitor
) -> None:
    file = scene.directory / "later.txt"
    visitor.expect("422")
    page = visitor.open(scene.page("create", PLUGIN))
    for key, value in (("name", new_connector), ("file", str(file)), ("topic", "later")):
        find_field(page, key).fill(value)
    page.get_by_label("Start as").select_option("STOPPED")
    page.get_by_text("Initial offsets").click()
    partition, offset = (page.locator(f"#at1-{kind}") for kind in ("partition", "offset"))
    partition.fill(json.dumps({"filename": str(file)}))
    offset.fill("7")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#at1-offset-wrong")).to_have_text("The offset must be a JSON object.")
    expect(offset).to_have_attribute("aria-invalid", "true")
    assert violations_in_both_schemes(page) == []
    assert new_connector not in scene.get("/connectors")
    offset.fill('{"position": 7}')
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(new_connector)
    expect(page.locator("[data-result]")).to_contain_text("created with initial state STOPPED")
    assert scene.get(f"/connectors/{new_connector}/offsets")["offsets"] == [
        {"partition": {"filename": str(file)}, "offset": {"position": 7}}
    ]
