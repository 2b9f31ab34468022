"""Which class drives which database, by the beginning of its JDBC address.

Java's DriverManager sees only what was on the class path when the JVM began, which jars of `spark.jars` are not; Spark
finds those by the name of their class, in its option `driver`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DRIVERS: Final = {
    "postgresql": "org.postgresql.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "h2": "org.h2.Driver",
    "sqlite": "org.sqlite.JDBC",
    "snowflake": "net.snowflake.client.jdbc.SnowflakeDriver",
    "clickhouse": "com.clickhouse.jdbc.ClickHouseDriver",
}


def with_driver(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with `driver`, where it is not given and the address is of a database that is known.

    Raises ValueError without an address.
    """
    given = {key.lower(): value for key, value in options.items()}
    url = given.get("url", "")
    if not url.startswith("jdbc:"):
        raise ValueError(
            f"spark.option.url is required with spark.format=jdbc, as jdbc:…, and is {url or 'not there'}"
        )
    driver = DRIVERS.get(url.split(":")[1])
    return dict(options) if driver is None or "driver" in given else {**options, "driver": driver}
