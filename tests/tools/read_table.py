"""Prints an Iceberg or Delta table as DuckDB reads it: `python read_table.py iceberg|delta LOCATION QUERY`.

Runs in the environment of tests/lake-reader.lock, without Kraal. QUERY selects from the view `stored`. The output is
JSON: in the first line the type of each column of the table, and then the rows of the query.
"""

from __future__ import annotations

import json
import sys
from typing import Final

import duckdb  # type: ignore[import-not-found, unused-ignore]
from duckdb_extensions import import_extension  # type: ignore[import-not-found, unused-ignore]

EXTENSIONS: Final = {"iceberg": ("avro", "iceberg"), "delta": ("delta",)}


def main() -> None:
    """Print the types and the rows."""
    kind, location, query = sys.argv[1:]
    with duckdb.connect() as connection:
        for extension in EXTENSIONS[kind]:
            import_extension(extension, con=connection)
            connection.load_extension(extension)
        connection.execute(f"CREATE VIEW stored AS FROM {kind}_scan('{location}')")
        columns = connection.execute("DESCRIBE stored").fetchall()
        lines = [{name: column_type for name, column_type, *_ in columns}]
        lines += connection.execute(query).fetchall()
    sys.stdout.writelines(f"{json.dumps(line)}\n" for line in lines)


if __name__ == "__main__":
    main()
