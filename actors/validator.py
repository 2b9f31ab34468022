"""Checks connector configs beside the herder: a plugin that blocks in its checks blocks nobody else.

Each check is an actor of its own, so that one slow plugin does not delay the checks of others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from actors.guard import plugin_code
from actors.mailbox import Address
from actors.messages.herder import Validated
from actors.messages.supervisor import Validate, ValidatorMessage
from actors.system import Begin
from kraal.errors import KraalError

if TYPE_CHECKING:
    from actors.system import System
    from kraal.ids import Config
    from kraal.plugins.infos import ConfigInfos

Check = Callable[["Config"], "ConfigInfos"]
"""Checks one config. Raises BadRequest for an unknown class."""


class Validator:
    """Starts a check for each request."""

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
                    lambda error: _answer(message, error=KraalError(repr(error))),
                )
            case _:
                assert_never(message)


class _Validation:
    """One check: does it on Begin, answers, ends."""

    def __init__(self, address: Address, system: System, check: Check, request: Validate) -> None:
        self._address = address
        self._system = system
        self._check = check
        self._request = request

    def receive(self, message: object) -> None:
        """Do the check, whatever the message."""
        del message
        try:
            with plugin_code("checking the config"):
                infos = self._check(self._request.config)
        except KraalError as error:
            cause = error.__cause__
            _answer(self._request, error=cause if isinstance(cause, KraalError) else error)
        else:
            self._request.reply_to.tell(Validated(token=self._request.token, infos=infos))
        self._system.stop(self._address)


def _answer(request: Validate, *, error: Exception) -> None:
    request.reply_to.tell(Validated(token=request.token, error=error))
