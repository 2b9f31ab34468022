"""`/connectors/{c}/proof`: compares topics with the target of a sink, or with a source. Kraal's addition.

A worker runs one proof at a time, in the background, and keeps the latest one of each connector. Any worker returns the
latest one of all workers.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Protocol

from kraal.cluster.views import rest as view
from kraal.core.errors import BadRequest, NotFound
from kraal.proof.result import RUNNING
from kraal.proof.scope import ALL_RECORDS, ProofScope
from web.openapi.operation import Operation, Query
from web.openapi.proofs import PROOF
from web.rendering import json_response
from web.requests.ask_workers import ask_workers, should_ask_workers
from web.requests.paths import connector_name
from web.resource import Endpoint, endpoint, live_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from kraal.core.ids import Config, ConnectorName
    from web.settings import Services

_PATH: Final = "/connectors/{connector}/proof"
_MAX_DIGITS: Final = 15
_DECIMAL: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,15})?")
_MAX_PERCENT: Final = 100


class ProofRunner(Protocol):
    """Runs proofs. Thread-safe; returns at once."""

    def start(
        self,
        name: ConnectorName,
        config: Config,
        task_configs: Sequence[Config] | None = None,
        scope: ProofScope = ALL_RECORDS,
    ) -> dict[str, Any]:
        """Start a proof and return its state; `task_configs` is None for a sink. Raises Conflict."""

    def latest(self, name: ConnectorName) -> dict[str, Any] | None:
        """Return the state of a connector's latest proof."""


def endpoints(proofs: ProofRunner | None) -> list[Endpoint]:
    """Return the endpoints. Without `proofs`, return none; requests then get 404."""
    return [] if proofs is None else [_start(proofs), _show(proofs)]


def _start(proofs: ProofRunner) -> Endpoint:
    @endpoint(
        "POST",
        _PATH,
        Operation(
            name="proveConnector",
            tag="connectors",
            summary="Compare the target of a sink, or the records of a source, with the topics",
            description="Starts a proof in the background. `GET` returns its state. If a proof of the connector is "
            "already running, returns its state.",
            query=(
                Query(
                    name="since",
                    description="Compare only records with this timestamp or a later one, in milliseconds since the "
                    "epoch. For sinks only.",
                    schema={"type": "integer", "minimum": 0},
                ),
                Query(
                    name="sample",
                    description="Compare only this share of the records of each partition, in percent: adjacent "
                    "records at a random position. For sinks only.",
                    schema={"type": "number", "exclusiveMinimum": 0, "maximum": 100},
                ),
            ),
            responses={202: PROOF},
            errors=(400, 404, 409),
        ),
    )
    async def post(services: Services, request: Request) -> Response:
        scope = ProofScope(
            since_ms=_parse_since(request.query_params.get("since")),
            sample_percent=_parse_sample(request.query_params.get("sample")),
        )
        name = connector_name(request)
        snapshot = await live_snapshot(services)
        connector = snapshot.config.connector(name)
        task_configs = None if view.find_type(snapshot, name) == "sink" else connector.tasks
        state = proofs.start(name, connector.config, task_configs, scope)
        return json_response(state, status=HTTPStatus.ACCEPTED)

    return post


def _show(proofs: ProofRunner) -> Endpoint:
    @endpoint(
        "GET",
        _PATH,
        Operation(
            name="getProof",
            tag="connectors",
            summary="Show the latest proof of a connector",
            description="A running proof of any worker, or else the proof that was started last.",
            responses={200: PROOF},
            errors=(404,),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        name, snapshot = connector_name(request), await live_snapshot(services)
        view.connector_config(snapshot, name)  # raises NotFound
        members = await services.members.urls(snapshot) if should_ask_workers(services, request) else {}
        other_workers = members.keys() - {snapshot.worker_id}
        responses, _ = await ask_workers(services, request, other_workers, "", _parse_state)
        own_state = proofs.latest(name)
        states = [*([] if own_state is None else [own_state]), *(state for _, state in responses)]
        if not states:
            raise NotFound(
                f"Connector {name} has not been proved since its workers started; send a POST first."
            )
        return json_response(max(states, key=lambda state: (state["state"] == RUNNING, state["started_ms"])))

    return get


def _parse_state(body: object) -> dict[str, Any] | None:
    """Return the proof in the response of another worker; None if it is malformed."""
    if (
        isinstance(body, dict)
        and isinstance(body.get("state"), str)
        and isinstance(body.get("started_ms"), int)
    ):
        return body
    return None


def _parse_since(text: str | None) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    raise BadRequest(f"Invalid since '{text}'; expected milliseconds since the epoch, a whole number.")


def _parse_sample(text: str | None) -> float | None:
    if text is None:
        return None
    if _DECIMAL.fullmatch(text) and 0 < (percent := float(text)) <= _MAX_PERCENT:
        return percent
    raise BadRequest(
        f"Invalid sample '{text}'; expected a percentage greater than 0 and at most 100, such as 0.5."
    )
