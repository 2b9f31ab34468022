"""Classes of ours in Spark's JVM: compiled by Janino, which Spark ships for its own code, when they are first needed.

A jar in the package was the other way; nobody could read what is in it, and it would hang on one Java version.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

_ONE_AT_A_TIME: Final = threading.Lock()


def called(name: str, source: str, function: Callable[[Any], Any], *columns: Column) -> Column:
    """Return a column of what a function of ours gives; `function` gets a new object of the class and returns it.

    Job thread.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - loaded when Spark is
    from pyspark.sql.classic.column import Column as Classic  # noqa: PLC0415
    from pyspark.sql.classic.column import _to_seq  # noqa: PLC0415

    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - as pyspark.sql.functions does it
    given: Any = columns
    made = loaded(context, name, source).getDeclaredConstructor(None).newInstance(None)
    return Classic(function(made).apply(_to_seq(context, [each._jc for each in given])))  # noqa: SLF001 - as above


def invoked(
    name: str, source: str, column: Column, *, type_of: str, arguments: tuple[bytes | str, ...]
) -> Column:
    """Return a column of what `read` of an object of ours gives for another one, in Spark's own form of values.

    Null stays null and is not asked for. `type_of`: what comes out, in Spark's DDL; `arguments`: what the object is
    made of. Quicker than `called`, which makes Java's values of Spark's, and back. Job thread.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - loaded when Spark is
    from pyspark.sql.classic.column import Column as Classic  # noqa: PLC0415
    from pyspark.sql.classic.column import _to_seq  # noqa: PLC0415

    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - as pyspark.sql.functions does it
    jvm = context._jvm  # noqa: SLF001 - as above
    sql = jvm.org.apache.spark.sql
    catalyst, utils = sql.catalyst.expressions, sql.classic.ExpressionUtils
    of_class = loaded(context, name, source)
    values = context._gateway.new_array(jvm.java.lang.Object, len(arguments))  # noqa: SLF001 - as above
    for place, each in enumerate(arguments):
        values[place] = each
    made = of_class.getConstructors()[0].newInstance(values)
    propagates_null = may_be_null = is_deterministic = True
    call = catalyst.objects.Invoke(
        catalyst.Literal(made, sql.types.ObjectType(of_class)),
        "read",
        sql.types.DataType.fromDDL(type_of),
        _to_seq(context, [utils.expression(column._jc)]),  # noqa: SLF001 - as above
        _to_seq(context, []),
        propagates_null,
        may_be_null,
        is_deterministic,
    )
    return Classic(utils.column(call))


def loaded(context: Any, name: str, source: str) -> Any:
    """Return a class of ours, compiled and made known to driver and executors the first time. Job thread."""
    with _ONE_AT_A_TIME:
        loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()  # noqa: SLF001 - has no public way
        if loader.getResource(f"{name.replace('.', '/')}.class") is None:
            made = _compiled(context, source, f"{name}.jar")
            loader.addURL(context._jvm.java.io.File(str(made)).toURI().toURL())  # noqa: SLF001 - as above
            context._jsc.sc().addJar(str(made))  # noqa: SLF001 - as above
        return loader.loadClass(name)


def _compiled(context: Any, source: str, jar: str) -> Path:
    """Compile a unit of Java for a SparkContext's JVM; return the jar file, which is gone with the session."""
    from pyspark import SparkFiles  # noqa: PLC0415 - loaded when Spark is

    jvm = context._jvm  # noqa: SLF001 - PySpark has no public way
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    folder = Path(SparkFiles.getRootDirectory()) / "made"
    folder.mkdir(exist_ok=True)
    made = folder / jar
    with zipfile.ZipFile(made, "w") as packed:
        for name, code in compiler.getBytecodes().items():
            packed.writestr(f"{name.replace('.', '/')}.class", bytes(code))
    return made
