"""The engine of a worker: Spark, with the worker's settings and jars."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kraal.config.spark_master import is_warmup_enabled
from kraal.connectors.spark.object_stores import register_jars
from kraal.core.private_files import find_writable
from kraal.jars.class_archive import existing_archive
from kraal.jars.directories import cache_dir
from kraal.jars.jars import ensure

if TYPE_CHECKING:
    from kraal.engine.api import Engine
    from kraal.plugins.registry import Registry

log = logging.getLogger(__name__)


def spark_engine(
    settings: Mapping[str, str],
    registry: Registry,
    plugin_jars: Sequence[Path],
    scratch: Path,
    *,
    at_once: bool,
) -> Engine:
    """Create the engine. With `at_once` and warm-up, Spark starts immediately, not only when a connector needs it."""
    # Imported late, because its imports would delay the startup of REST.
    from kraal.engine.engine import SparkEngine  # noqa: PLC0415 - see above
    from kraal.plugins.transform_chain import make_chain  # noqa: PLC0415 - as above

    configured_jars = (settings.get(key, "") for key in ("spark.jars", "spark.jars.packages"))
    register_jars(
        [*map(str, plugin_jars), *(path.strip() for text in configured_jars for path in text.split(","))]
    )
    archive = existing_archive()
    code_paths = [cache_dir(), cache_dir() / "jars", *([archive] if archive else ()), *plugin_jars]
    for warning in find_writable([*code_paths, *(path.parent for path in plugin_jars)]):
        log.warning("%s", warning)
    return SparkEngine(
        settings,
        registry,
        lambda: [*ensure("spark"), *plugin_jars],
        chains=partial(make_chain, registry),
        leave=partial(_leave_group, scratch=scratch),
        scratch=str(scratch),
        archive=archive,
        at_once=at_once and is_warmup_enabled(settings),
    )


def _leave_group(settings: Mapping[str, str], group: str, member_id: str, *, scratch: Path) -> None:
    # Imported late, because the import takes a tenth of the startup time of REST.
    from kraal.kafka.leave_group import leave_group  # noqa: PLC0415 - see above

    leave_group(settings, group, member_id, scratch=scratch)
