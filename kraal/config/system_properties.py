"""Java system properties in `KAFKA_OPTS` that Kraal applies as a Java worker's JVM does."""

from __future__ import annotations

import re
from collections.abc import Mapping


def kafka_opts_property(name: str, environment: Mapping[str, str]) -> str | None:
    """Return the value of the last `-DNAME=VALUE` in KAFKA_OPTS, without quotes; None if the property is not set."""
    pattern = rf"""(?:^|\s)(?:"-D{re.escape(name)}==?([^"]*)"|'-D{re.escape(name)}==?([^']*)'|"""
    pattern += rf"""-D{re.escape(name)}==?("[^"]*"|'[^']*'|[^\s"']*))"""
    matches = re.findall(pattern, environment.get("KAFKA_OPTS", ""))
    return "".join(matches[-1]).strip("\"'") if matches else None
