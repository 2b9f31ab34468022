"""Authors and effects of requests. The journal records the author of each change of a state or a config.

An author consists of verified facts only: the authenticated user and the address of the connection. A forwarded request
has the address of the worker that forwarded it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
    RestartConnector,
    RestartTask,
    SetLoggerLevel,
    SetTargetState,
)
from actors.messages.offsets import AlterOffsets, ResetOffsets
from kraal.config.worker.basic_auth import parse_user
from kraal.journal.authors import (
    ConfigWritten,
    ConnectorDeleted,
    Effect,
    InstanceRestarted,
    LoggerLevelSet,
    OffsetsChanged,
    TargetStateSet,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from web.settings import Services

_MAX_USER_LENGTH: Final = 100
"""Maximum length of a user's name in characters."""


def author(services: Services, request: Request, *, forwarded: bool) -> str:
    """Return the author of a request, such as `PUT by alice from 10.0.0.7`. `forwarded` adds ` (forwarded)`."""
    user = ""
    if services.settings.basic_auth is not None:
        user = parse_user(request.headers.get("authorization")) or ""
    by = f" by {user[:_MAX_USER_LENGTH]}" if user else ""
    client = f" from {request.client.host}" if request.client is not None and request.client.host else ""
    return f"{request.method}{by}{client}{' (forwarded)' if forwarded else ''}"


def journal_effect(message: object) -> Effect | None:
    """Return the effect that the journal records for a message to the herder; None if there is no effect to record."""
    match message:
        case CreateConnector(name=name, config=config) | PutConfig(name=name, config=config):
            return ConfigWritten(name, config)
        case PatchConfig(name=name, patch=patch):
            return ConfigWritten(name, patch)
        case DeleteConnector(name=name):
            return ConnectorDeleted(name)
        case SetTargetState(name=name, target=target):
            return TargetStateSet(name, target)
        case RestartConnector(name=name, include_tasks=tasks, only_failed=failed):
            return InstanceRestarted(name, tasks, failed)
        case RestartTask(task=task):
            return InstanceRestarted(task)
        case SetLoggerLevel(namespace=namespace):
            return LoggerLevelSet(namespace)
        case AlterOffsets(name=name) | ResetOffsets(name=name):
            return OffsetsChanged(name)
        case _:
            return None
