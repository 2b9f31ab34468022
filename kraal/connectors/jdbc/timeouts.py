"""Timeouts of database connections: two config keys, and the driver properties that they set.

By default, JDBC drivers wait indefinitely, both for a connection and for a response. Neither Spark nor the JVM
interrupts such a wait: the thread is blocked for all tasks until the server or the network closes the connection.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.config.checks import at_least
from kraal.config.key import ConfigType, Importance, Key

CONNECT_TIMEOUT: Final = "jdbc.connect.timeout.ms"
SOCKET_TIMEOUT: Final = "jdbc.socket.timeout.ms"


def is_set(name: str, options: Container[str], url: str) -> bool:
    """Return whether a driver's property is set, as an option with a lowercase name, or in the URL."""
    short_name = re.escape(name.rpartition(".")[2])
    return name.lower() in options or bool(re.search(rf"[?&;,(.]\s*{short_name}\s*=", url, re.IGNORECASE))


@dataclass(frozen=True, slots=True)
class _Property:
    """A driver's property for one of the two timeouts."""

    name: str
    in_seconds: bool = False

    def is_set_in(self, options: Mapping[str, str], url: str) -> bool:
        """Return whether the property is set, as an option or in the URL, in the driver's syntax."""
        return is_set(self.name, options, url)

    def format_value(self, milliseconds: int) -> str:
        """Return the value of the property; fractions of a second are rounded up."""
        return str(math.ceil(milliseconds / 1000) if self.in_seconds else milliseconds)


_PROPERTIES: Final[Mapping[str, Mapping[str, tuple[_Property, ...]]]] = {
    "postgresql": {
        CONNECT_TIMEOUT: (
            _Property("connectTimeout", in_seconds=True),
            _Property("loginTimeout", in_seconds=True),
        ),
        SOCKET_TIMEOUT: (_Property("socketTimeout", in_seconds=True),),
    },
    "mysql": {CONNECT_TIMEOUT: (_Property("connectTimeout"),), SOCKET_TIMEOUT: (_Property("socketTimeout"),)},
    "mariadb": {
        CONNECT_TIMEOUT: (_Property("connectTimeout"),),
        SOCKET_TIMEOUT: (_Property("socketTimeout"),),
    },
    "sqlserver": {
        CONNECT_TIMEOUT: (_Property("loginTimeout", in_seconds=True),),
        SOCKET_TIMEOUT: (_Property("socketTimeout"),),
    },
    "oracle": {
        CONNECT_TIMEOUT: (_Property("oracle.net.CONNECT_TIMEOUT"),),
        SOCKET_TIMEOUT: (_Property("oracle.jdbc.ReadTimeout"),),
    },
    "db2": {
        CONNECT_TIMEOUT: (_Property("loginTimeout", in_seconds=True),),
        SOCKET_TIMEOUT: (_Property("blockingReadConnectionTimeout", in_seconds=True),),
    },
}
"""Properties by the subprotocol of the URL. Drivers of other databases keep their defaults."""

TIMEOUTS: Final = (
    Key(
        name=CONNECT_TIMEOUT,
        type=ConfigType.INT,
        default=30_000,
        validator=at_least(0),
        importance=Importance.LOW,
        doc="Timeout for connecting and logging in to the database; 0: the driver's default. A timeout in "
        "`spark.option.url` or in an option of the driver takes precedence.",
    ),
    Key(
        name=SOCKET_TIMEOUT,
        type=ConfigType.INT,
        default=1_800_000,
        validator=at_least(0),
        importance=Importance.LOW,
        doc="Maximum time without data from the database while a response is expected; 0: the driver's default, which "
        "may be no timeout. The value must be longer than the slowest query takes to return its first row. A timeout "
        "in `spark.option.url` or in an option of the driver takes precedence.",
    ),
)
"""The config keys of both timeouts, without a group."""


def add_timeouts(options: Mapping[str, str], parsed: Mapping[str, Any]) -> dict[str, str]:
    """Add the driver properties for the two keys to the options of a connection, unless already set.

    Supports PostgreSQL, MySQL, MariaDB, SQL Server, Oracle and Db2; options of other drivers stay unchanged.
    """
    lowercase_options = {key.lower(): value for key, value in options.items()}
    url = lowercase_options.get("url", "")
    kind = url.partition(":")[2].partition(":")[0]
    result = dict(options)
    for key, properties in _PROPERTIES.get(kind, {}).items():
        for driver_property in properties:
            if int(parsed[key]) and not driver_property.is_set_in(lowercase_options, url):
                result[driver_property.name] = driver_property.format_value(int(parsed[key]))
    return result
