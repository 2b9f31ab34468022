"""Validation of connector configs off the herder's thread.

Each validation has its own actor, so that a blocking plugin does not delay other validations.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from actors.instances.plugin_calls import plugin_code
from actors.messages.herder import Validated
from actors.messages.supervisor import Validate, ValidatorMessage
from actors.runtime.mailbox import Address
from actors.runtime.system import Begin
from kraal.core.errors import KraalError

if TYPE_CHECKING:
    from actors.runtime.system import System
    from kraal.core.ids import Config
    from kraal.plugins.validation.infos import ConfigInfos

Check = Callable[["Config"], "ConfigInfos"]
"""Validates one config. Raises BadRequest for an unknown class."""


class Validator:
    """Starts an actor for each request."""

    def __init__(self, *, system: System, check: Check) -> None:
        self._system = system
        self._check = check
        self._numbers = itertools.count()

    def receive(self, message: ValidatorMessage) -> None:
        """Handle one message."""
        match message:
            case Begin():
                return
            case Validate():
                address = Address(f"validation-{next(self._numbers)}")
                self._system.spawn(
                    address,
                    lambda: _Validation(address, self._system, self._check, message),
                    lambda error: _reply(message, error=KraalError(repr(error))),
                )
            case _:
                assert_never(message)


class _Validation:
    """The actor of one validation: validates on Begin, replies and stops."""

    def __init__(self, address: Address, system: System, check: Check, request: Validate) -> None:
        self._address = address
        self._system = system
        self._check = check
        self._request = request

    def receive(self, message: object) -> None:
        """Validate the config on any message."""
        del message
        try:
            with plugin_code("checking the config"):
                infos = self._check(self._request.config)
        except KraalError as error:
            cause = error.__cause__
            _reply(self._request, error=cause if isinstance(cause, KraalError) else error)
        else:
            self._request.reply_to.tell(Validated(token=self._request.token, infos=infos))
        self._system.stop(self._address)


def _reply(request: Validate, *, error: Exception) -> None:
    request.reply_to.tell(Validated(token=request.token, error=error))
