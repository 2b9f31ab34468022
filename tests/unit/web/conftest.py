"""The API with default settings."""

from __future__ import annotations

import pytest

from tests.unit.web.api import Api
from web.settings import Settings


@pytest.fixture
def api() -> Api:
    """Return an API at http://worker:8083/ whose herder has nothing."""
    return Api(Settings(advertised_url="http://worker:8083/"))
