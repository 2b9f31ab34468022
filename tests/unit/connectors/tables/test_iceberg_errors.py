"""Tests for errors of Iceberg's catalogs: which of them let the task wait, and which fail it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from thrift.transport.TTransport import TTransportException

from kraal.connectors.tables.iceberg import IcebergTable, make_catalog
from kraal.plugins.api import RetriableError


def client_error(code: str, status: int) -> ClientError:
    """Return an error of AWS."""
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetTable")


def load(error: Exception) -> None:
    """Load a table whose catalog raises an error."""

    def fail() -> None:
        raise error

    IcebergTable(fail, "shop.orders", "sink").load([])


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(client_error("ThrottlingException", 400), id="too many requests"),
        pytest.param(client_error("Unknown", 503), id="unavailable"),
        pytest.param(EndpointConnectionError(endpoint_url="http://glue"), id="no connection to Glue"),
        pytest.param(TTransportException(message="read 0 bytes"), id="no connection to Hive"),
    ],
)
def test_task_waits_for_a_catalog_that_is_away(error: Exception) -> None:
    with pytest.raises(RetriableError, match="the catalog or the storage is not available"):
        load(error)


def test_lack_of_a_permission_fails_the_task() -> None:
    with pytest.raises(ClientError, match="AccessDeniedException"):
        load(client_error("AccessDeniedException", 400))


def test_client_of_glue_does_not_repeat_requests(tmp_path: Path) -> None:
    properties = {
        "type": "glue",
        "warehouse": str(tmp_path),
        "glue.endpoint": "http://127.0.0.1:1",
        "glue.region": "us-east-1",
        "glue.access-key-id": "nobody",
        "glue.secret-access-key": "nothing",
        "glue.max-retries": "7",
    }
    with make_catalog("iceberg", properties) as catalog:
        assert catalog.glue.meta.config.retries["total_max_attempts"] == 1
