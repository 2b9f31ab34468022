"""JDBC driver classes by the prefix of a database's JDBC URL.

Java's DriverManager sees only classes on the class path at the JVM's start, which excludes jars of `spark.jars`; Spark
finds those by their class name in its option `driver`.
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
    """Add the option `driver` if it is missing and the URL is that of a known database.

    Raises ValueError without a URL, and for a URL with which Spark would read and write incorrect data.
    """
    lowered = {key.lower(): value for key, value in options.items()}
    url = lowered.get("url", "")
    if not url.startswith("jdbc:"):
        raise ValueError(
            f"spark.option.url is required with spark.format=jdbc, as jdbc:…, and is {url or 'not there'}"
        )
    if url.startswith("jdbc:mariadb:") and "ansi_quotes" not in url.lower():
        raise ValueError(
            'spark.option.url begins with jdbc:mariadb:, for which Spark quotes names with ", and MariaDB takes '
            '"name" for a text. Add sessionVariables=sql_mode=ANSI_QUOTES to it, or write '
            "jdbc:mysql:…?permitMysqlScheme and set spark.option.driver=org.mariadb.jdbc.Driver"
        )
    driver = DRIVERS.get(url.split(":")[1])
    return dict(options) if driver is None or "driver" in lowered else {**options, "driver": driver}
