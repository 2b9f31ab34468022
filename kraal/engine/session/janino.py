"""Java classes in Spark's JVM, compiled on first use with Janino, which is part of Spark.

The sources are in `kraal/engine/java`. A compiled jar file in the package would depend on a Java version.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

_SOURCES: Final = Path(__file__).parents[1] / "java"
_DEPENDENCIES: Final = {"kraal.ExecutorProducers": ("kraal.Producers", "kraal.Refusals")}
"""The classes in the same folder on which a class depends."""
_LOCK: Final = threading.Lock()


def call_function(name: str, function: Callable[[Any], Any], *columns: Column) -> Column:
    """Return a column computed by a Java function. Must be called on a job thread.

    `function` receives a new object of the class, and returns the Java function.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - heavy; loaded after the start of Spark
    from pyspark.sql.classic.column import Column as Classic  # noqa: PLC0415
    from pyspark.sql.classic.column import _to_seq  # noqa: PLC0415

    context: Any = SparkContext._active_spark_context
    arguments: Any = columns
    instance = new_instance(context, name)
    return Classic(function(instance).apply(_to_seq(context, [column._jc for column in arguments])))  # noqa: SLF001 - as above


def invoke_read(name: str, column: Column, *, type_of: str, arguments: tuple[bytes | str, ...]) -> Column:
    """Return a column computed by the method `read` of a Java object, which receives Spark's internal values.

    This is faster than `call_function`, which converts Spark's values to Java's and back. Null remains null without a
    call. Must be called on a job thread.

    Args:
        name: the class of the object.
        column: the input.
        type_of: the result type, in DDL.
        arguments: the arguments of the constructor.
    """
    from pyspark import SparkContext  # noqa: PLC0415 - heavy; loaded after the start of Spark
    from pyspark.sql.classic.column import Column as Classic  # noqa: PLC0415
    from pyspark.sql.classic.column import _to_seq  # noqa: PLC0415

    context: Any = SparkContext._active_spark_context
    jvm = context._jvm
    sql = jvm.org.apache.spark.sql
    catalyst, utils = sql.catalyst.expressions, sql.classic.ExpressionUtils
    java_class = load_class(context, name)
    values = context._gateway.new_array(jvm.java.lang.Object, len(arguments))
    for index, argument in enumerate(arguments):
        values[index] = argument
    instance = java_class.getConstructors()[0].newInstance(values)
    propagates_null = may_be_null = is_deterministic = True
    call = catalyst.objects.Invoke(
        catalyst.Literal(instance, sql.types.ObjectType(java_class)),
        "read",
        sql.types.DataType.fromDDL(type_of),
        _to_seq(context, [utils.expression(column._jc)]),  # noqa: SLF001 - as above
        _to_seq(context, []),
        propagates_null,
        may_be_null,
        is_deterministic,
    )
    return Classic(utils.column(call))


def new_instance(context: Any, name: str) -> Any:
    """Return a new object of a class of `kraal/engine/java`, created without arguments. For job threads."""
    return load_class(context, name).getDeclaredConstructor(None).newInstance(None)


def load_class(context: Any, name: str) -> Any:
    """Return a class of `kraal/engine/java`; on first use, compile it for driver and executors. For job threads."""
    with _LOCK:
        loader = _get_loader(context._jvm)
        for class_name in (*_DEPENDENCIES.get(name, ()), name):
            if not _has_class(loader, class_name):
                jar = _add_class(context._jvm, loader, class_name, _folder_of_context())
                context._jsc.sc().addJar(str(jar))
        return loader.loadClass(name)


def compile_class(jvm: Any, name: str, folder: Path) -> list[Path]:
    """Compile a class of `kraal/engine/java` before there is a SparkContext; return the jars in `folder`.

    The driver can load the class afterwards. Must be called on the session's thread.
    """
    with _LOCK:
        return [
            _add_class(jvm, _get_loader(jvm), class_name, folder)
            for class_name in (*_DEPENDENCIES.get(name, ()), name)
        ]


def _get_loader(jvm: Any) -> Any:
    return jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _has_class(loader: Any, name: str) -> bool:
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None


def _folder_of_context() -> Path:
    """Return a folder that Spark removes with the session."""
    from pyspark import SparkFiles  # noqa: PLC0415 - heavy; loaded after the start of Spark

    folder = Path(SparkFiles.getRootDirectory()) / "made"
    folder.mkdir(exist_ok=True)
    return folder


def _add_class(jvm: Any, loader: Any, name: str, folder: Path) -> Path:
    """Compile a class into a jar file, and add it to the driver's class loader."""
    source = (_SOURCES / name.rsplit(".", maxsplit=1)[-1]).with_suffix(".java").read_text("utf-8")
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(source)
    jar = folder / f"{name}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        classes = compiler.getBytecodes()
        # An array, because a Java iterator ends with an exception, for which PySpark requires a SparkContext.
        for class_name in classes.keySet().toArray():
            archive.writestr(f"{class_name.replace('.', '/')}.class", bytes(classes.get(class_name)))
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    return jar
