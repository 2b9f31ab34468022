"""JDBC driver classes by the subprotocol of the URL.

Java's DriverManager sees only classes that were on the JVM's class path at startup, and not those in `spark.jars`.
Spark loads a driver from these jars if the option `driver` contains the driver's class name.
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


def add_driver(options: Mapping[str, str]) -> dict[str, str]:
    """Add the option `driver` if it is missing and the URL's database is in `DRIVERS`.

    Raises ValueError without a URL, and for a URL with which Spark would read or write incorrect data.
    """
    lowercase_options = {key.lower(): value for key, value in options.items()}
    url = lowercase_options.get("url", "")
    if not url.startswith("jdbc:"):
        raise ValueError(
            f"spark.format=jdbc requires spark.option.url to start with jdbc:, but it is {url or 'not set'}"
        )
    if url.startswith("jdbc:mariadb:") and "ansi_quotes" not in url.lower():
        raise ValueError(
            'spark.option.url begins with jdbc:mariadb:, for which Spark quotes names with ", but MariaDB reads '
            '"name" as a string literal. Add sessionVariables=sql_mode=ANSI_QUOTES to the URL, or use '
            "jdbc:mysql:…?permitMysqlScheme and set spark.option.driver=org.mariadb.jdbc.Driver"
        )
    driver = DRIVERS.get(url.split(":")[1])
    return dict(options) if driver is None or "driver" in lowercase_options else {**options, "driver": driver}


def add_text_conversion(options: Mapping[str, str]) -> dict[str, str]:
    """Add the option with which PostgreSQL converts text to the types of columns, such as uuid, jsonb and time."""
    is_set = "stringtype" in {key.lower() for key in options}
    return dict(options) if is_set else {**options, "stringtype": "unspecified"}
