"""Tests that no request causes status 500, and that the API imports neither Spark nor Kafka."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.web.api import Api, send_raw_get
from web.settings import Settings

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
VALUES: SearchStrategy[object] = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8
)
BODIES = st.binary() | VALUES.map(lambda value: json.dumps(value).encode())
CREATE_REQUESTS = st.fixed_dictionaries(
    {}, optional={"name": VALUES, "config": VALUES, "initial_state": VALUES}
).map(lambda value: json.dumps(value).encode())
SETTINGS = Settings(advertised_url="http://worker:8083/")
fixed_examples = settings(
    max_examples=150,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


@fixed_examples
@given(body=BODIES | CREATE_REQUESTS)
def test_any_body_is_accepted_or_a_bad_request(body: bytes) -> None:
    api = Api(SETTINGS)
    for method, path in (("POST", "/connectors"), ("PUT", "/connectors/a/config")):
        code, text = api.request(method, path, body)
        assert code in (201, 400)
        assert code != 400 or list(json.loads(text)) == ["error_code", "message"]


@fixed_examples
@given(
    segment=st.text(
        st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="?#/"), min_size=1
    )
)
async def test_any_path_gets_a_response(segment: str) -> None:
    api = Api(SETTINGS)
    for path in (f"/connectors/{segment}", f"/connectors/a/tasks/{segment}/status", f"/{segment}"):
        assert (await send_raw_get(api, path))[0]["status"] in (200, 400, 404)


@fixed_examples
@given(name=st.text(min_size=1))
def test_location_refers_to_the_connector(name: str) -> None:
    api = Api(SETTINGS)
    response = api.client.post("/connectors", json={"name": name, "config": {}})
    created_name = response.json()["name"]
    if created_name not in ("", ".", ".."):  # HTTP clients remove these path segments
        location_path = response.headers["Location"].removeprefix("http://worker:8083")
        assert api.client.get(location_path).json()["name"] == created_name


@pytest.mark.parametrize("module", ["web.app", "web.server"])
def test_api_imports_neither_spark_nor_kafka(module: str) -> None:
    code = f"import sys, {module}; print(*{{'pyspark', 'pyarrow', 'numpy', 'kafka', 'pykka'}} & {{*sys.modules}})"
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert process.stdout.split() == []
