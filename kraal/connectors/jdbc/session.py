"""Database connections from Spark's JVM, which can load all drivers, including those in `spark.jars`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from kraal.connectors.jdbc import mysql
from kraal.connectors.jdbc.database import ROLLED_BACK_STATE, TIMEOUT_STATE, SqlFailed, StoredColumn
from kraal.connectors.jdbc.names import check_name, parse_kind

if TYPE_CHECKING:
    from pyspark import SparkContext

_MAX_CAUSES: Final = 20
_GENERAL_STATE: Final = "HY000"
_MYSQL_CONFLICTS: Final = frozenset({1020, 1205})
"""MySQL's codes of a changed row and of a lock timeout; a retry may succeed, but their SQLSTATE is the general one."""


class JdbcSession:
    """A `Database` over java.sql. Not thread-safe."""

    def __init__(self, connection: Any, dialect: Any, kind: str, jvm: Any) -> None:
        self._connection = connection
        self._dialect = dialect
        self._jvm = jvm
        self.kind = kind

    def quote(self, name: str) -> str:
        """See Database; quotes like Spark's dialect. Raises ValueError if the name cannot be quoted safely."""
        check_name(self.kind, name)
        return str(self._dialect.quoteIdentifier(name))

    def execute(self, sql: str, *values: object, wait_s: int = 0) -> int:
        """See Database."""
        with self._prepare_statement(sql, values) as statement:
            if wait_s:
                statement.setQueryTimeout(wait_s)
            return int(statement.executeUpdate())

    def query(self, sql: str, *values: object) -> Sequence[tuple[str | None, ...]]:
        """See Database."""
        with self._prepare_statement(sql, values) as statement:
            return _fetch_rows(statement.executeQuery())

    def describe(self, table: str) -> Sequence[StoredColumn]:
        """See Database."""
        with self._prepare_statement(f"SELECT * FROM {table} WHERE 1 = 0", ()) as statement:  # noqa: S608 - the name is validated
            metadata = statement.executeQuery().getMetaData()
            columns = [
                StoredColumn(
                    name=str(metadata.getColumnName(number)),
                    code=int(metadata.getColumnType(number)),
                    type_name=str(metadata.getColumnTypeName(number)),
                    precision=int(metadata.getPrecision(number)),
                    scale=int(metadata.getScale(number)),
                )
                for number in range(1, int(metadata.getColumnCount()) + 1)
            ]
        return [mysql.adapt_column(column) for column in columns] if self.kind == mysql.KIND else columns

    def get_type(self, spark_type: str) -> str:
        """See Database."""
        sql: Any = self._jvm.org.apache.spark.sql
        data_type = sql.types.DataType.fromJson(spark_type)
        utils = sql.execution.datasources.jdbc.JdbcUtils
        return str(utils.getJdbcType(data_type, self._dialect).databaseTypeDefinition())

    def list_tables(self, prefix: str, catalog: str | None = None) -> Sequence[str]:
        """See Database."""
        with _explain_errors():
            metadata = self._connection.getMetaData()
            stored_prefix = prefix.upper() if metadata.storesUpperCaseIdentifiers() else prefix
            rows = _fetch_rows(
                metadata.getTables(catalog or self._connection.getCatalog(), None, f"{stored_prefix}%", None)
            )
        names = [str(row[2]) for row in rows]  # TABLE_NAME is the third column
        return [name for name in names if name.startswith(stored_prefix)]

    def commit(self) -> None:
        """See Database."""
        with _explain_errors():
            self._connection.commit()

    def rollback(self) -> None:
        """See Database."""
        with _explain_errors():
            self._connection.rollback()

    @contextmanager
    def _prepare_statement(self, sql: str, values: Sequence[object]) -> Iterator[Any]:
        with _explain_errors():
            statement = self._connection.prepareStatement(sql)
            try:
                for number, value in enumerate(values, 1):
                    statement.setObject(number, value)
                yield statement
            finally:
                statement.close()


@contextmanager
def connect_session(context: SparkContext, options: Mapping[str, str], table: str) -> Iterator[JdbcSession]:
    """Connect like Spark's JDBC writer with these options; roll back uncommitted changes on exit.

    Thread-safe. Raises SqlFailed, and ValueError for a database without transactions.
    """
    jvm: Any = context._jvm
    with _explain_errors():
        scala_options = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({**options, "dbtable": table})
        jdbc_options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(scala_options)
        dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(jdbc_options.url())
        connection = dialect.createConnectionFactory(jdbc_options).apply(-1)
    try:
        with _explain_errors():
            if not connection.getMetaData().supportsTransactions():
                raise ValueError(
                    "delivery.guarantee=exactly_once and write.mode=upsert and cdc require a database with transactions"
                )
            connection.setAutoCommit(False)
        yield JdbcSession(connection, dialect, parse_kind(str(jdbc_options.url())), jvm)
    finally:
        with suppress(SqlFailed), _explain_errors():  # the database rolls back when the connection is lost
            connection.rollback()
            connection.close()


def _fetch_rows(results: Any) -> list[tuple[str | None, ...]]:
    width = int(results.getMetaData().getColumnCount())
    rows: list[tuple[str | None, ...]] = []
    while results.next():
        rows.append(tuple(results.getString(number) for number in range(1, width + 1)))
    return rows


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Translate SQLExceptions to SqlFailed; other exceptions propagate unchanged."""
    try:
        yield
    except Exception as exc:
        error: Any = getattr(exc, "java_exception", None)
        if error is None or not _is_sql_exception(error):
            raise
        raise _describe(error) from exc


def find_sql_failure(error: BaseException) -> SqlFailed | None:
    """Return the failure of the database that caused an error of Spark; None if there is none. Calls the JVM."""
    cause: Any = getattr(error, "java_exception", None)
    for _ in range(_MAX_CAUSES):
        if cause is None:
            return None
        if _is_sql_exception(cause):
            return _describe(cause)
        cause = cause.getCause()
    return None


def _describe(error: Any) -> SqlFailed:
    """Return the description of a SQLException."""
    state = str(error.getSQLState() or "")
    if state == _GENERAL_STATE and int(error.getErrorCode()) in _MYSQL_CONFLICTS:
        state = ROLLED_BACK_STATE
    if not state and _is_instance(error, "java.sql.SQLTimeoutException"):
        state = TIMEOUT_STATE
    return SqlFailed(str(error.getMessage()), state)


def _is_sql_exception(error: Any) -> bool:
    return _is_instance(error, "java.sql.SQLException")


def _is_instance(error: Any, class_name: str) -> bool:
    java_class = error.getClass()
    while java_class is not None:
        if java_class.getName() == class_name:
            return True
        java_class = java_class.getSuperclass()
    return False
