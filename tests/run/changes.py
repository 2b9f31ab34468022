"""Skips tests whose dependencies have not changed since the last green run (`--by-change`).

These tests cover one part of the project, take long, and rarely fail because of changes elsewhere.
`tests/run/green.txt` contains the commit of the last run of CI in which all tests passed. A run reports the skipped
tests. All tests run without `--by-change`, and if the clone does not contain that commit, as in a shallow clone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import pytest

GREEN: Final = Path(__file__).parent / "green.txt"
_PACKAGING: Final = ("pyproject.toml", "requirements.in", "requirements.lock", "requirements-worker.lock")
_PIPELINES: Final = (
    *_PACKAGING,
    "kraal/config",
    "kraal/connectors",
    "kraal/core",
    "kraal/engine",
    "kraal/jars",
    "kraal/kafka",
    "kraal/plugins",
    "kraal/transforms",
    "tests/fakes/spark",
)
"""Packaging files and directories with code that processes records with Spark in the process of the tests."""
DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/integration/connectors": (
        *_PIPELINES,
        "kraal/broker",
        "kraal/converters",
        "kraal/proof",
        "scripts/harness",
        "tests/fakes/tables",
        "tests/fakes/workers",
        "tests/integration/spark/test_once.py",
        "tests/tools/debian.py",
        "tests/tools/mariadb.py",
    ),
    "tests/integration/converters": (
        *_PACKAGING,
        "kraal/converters",
        "kraal/core",
        "kraal/engine",
        "kraal/plugins",
        "tests/fakes/values",
        "tests/golden",
    ),
    "tests/integration/deploy/test_chart": (
        "deploy",
        "tests/tools/helm",
        "kraal/config/worker",
        "Dockerfile",
    ),
    "tests/integration/deploy/test_systemd": ("deploy",),
    "tests/integration/deploy/test_prometheus": ("deploy", "kraal/metrics", "web/routes"),
    "tests/integration/deploy/test_traces": ("kraal/metrics", "kraal/worker/traces.py"),
    "tests/integration/java_plugins/chains": (
        *_PACKAGING,
        "java",
        "actors/instances",
        "kraal/converters",
        "kraal/core",
        "kraal/engine",
        "kraal/jars",
        "kraal/java_plugins",
        "kraal/plugins",
        "kraal/transforms",
        "scripts/harness",
        "tests/fakes/workers",
        "tests/golden/transforms",
        "tests/integration/java_plugins/flows.py",
    ),
    "tests/integration/java_plugins/debezium": (
        "java",
        "actors/instances",
        "kraal/connectors/debezium",
        "kraal/converters",
        "kraal/engine/proof",
        "kraal/jars",
        "kraal/java_plugins",
        "kraal/plugins",
        "scripts/harness",
        "tests/fakes/workers",
        "tests/tools/mariadb.py",
    ),
    "tests/integration/java_plugins/test_faults": (
        *_PACKAGING,
        "java",
        "actors/instances",
        "kraal/converters",
        "kraal/core",
        "kraal/engine",
        "kraal/jars",
        "kraal/java_plugins",
        "kraal/plugins",
        "kraal/testing",
        "kraal/transforms",
        "tests/fakes/workers",
        "tests/integration/java_plugins/flows.py",
    ),
    "tests/integration/java_plugins/test_java_module": (
        "java",
        "kraal/broker",
        "kraal/jars",
        "kraal/java_plugins",
        "tests/integration/java_plugins/flows.py",
        "tests/integration/java_plugins/kafka_tests.py",
    ),
    "tests/integration/java_plugins/test_mirror": (
        *_PIPELINES,
        "java",
        "actors/instances",
        "actors/offsets",
        "kraal/broker",
        "kraal/java_plugins",
        "kraal/testing",
        "kraal/worker",
        "scripts/harness",
        "tests/fakes/workers",
        "tests/integration/java_plugins/flows.py",
    ),
    "tests/integration/spark/test_session": (
        *_PACKAGING,
        "kraal/broker",
        "kraal/core",
        "kraal/engine",
        "kraal/jars",
        "kraal/plugins",
        "tests/fakes/spark",
    ),
    "tests/integration/spark_cluster": (
        *_PACKAGING,
        "actors/instances",
        "kraal/config",
        "kraal/connectors",
        "kraal/engine",
        "kraal/kafka",
        "kraal/worker",
        "scripts/spark_cluster",
        "tests/fakes/spark",
    ),
    "tests/integration/stores": (
        *_PACKAGING,
        "kraal/broker",
        "kraal/core",
        "kraal/dead_letters",
        "kraal/kafka",
        "kraal/protocol",
        "kraal/stores",
        "scripts/harness/processes.py",
        "tests/fakes/kafka",
    ),
    "tests/integration/standalone/test_proof": (
        *_PIPELINES,
        "actors/instances",
        "kraal/cli",
        "kraal/client",
        "kraal/converters",
        "kraal/proof",
        "kraal/testing",
    ),
    "tests/integration/tables": (
        *_PACKAGING,
        "java",
        "actors/instances",
        "kraal/connectors/debezium",
        "kraal/connectors/tables",
        "kraal/converters",
        "kraal/engine",
        "kraal/jars",
        "kraal/java_plugins",
        "kraal/plugins",
        "scripts/harness",
        "tests/fakes/servers",
        "tests/fakes/tables",
        "tests/integration/java_plugins/debezium",
        "tests/lake-reader.lock",
        "tests/s3-server.lock",
        "tests/tools",
    ),
    "tests/integration/test_demo": (
        "scripts",
        "examples",
        "kraal/broker",
        "kraal/jars",
        "kraal/connectors/file",
        "kraal/connectors/tables",
        "kraal/cli",
    ),
    "tests/integration/test_embedded_kafka": ("kraal/broker", "kraal/jars", "kraal/cli"),
    "tests/integration/test_java_stores": ("kraal/config/clients", "kraal/jars"),
    "tests/integration/test_load": ("scripts",),
    "tests/integration/test_secured_kafka": (
        "kraal/config/clients",
        "kraal/engine/client_options.py",
        "kraal/kafka",
        "tests/fakes/kafka",
    ),
    "tests/integration/packages": (*_PACKAGING, "kraal/cli", "kraal/client", "tests/fakes/distributions.py"),
    "tests/integration/test_docs_site": ("docs", "mkdocs.yml", "scripts/docs", "scripts/docs_site"),
    "tests/integration/tutorials": (
        *_PACKAGING,
        "docs/tutorials",
        "examples",
        "kraal/cli",
        "kraal/client",
        "kraal/scaffold",
        "kraal/testing",
    ),
    "tests/integration/ui": ("web", "kraal/cli", "kraal/client", "kraal/journal", "kraal/metrics"),
    "tests/unit/bench": ("scripts",),
    "tests/unit/chaos": ("scripts",),
    "tests/unit/connectors/tables": (
        *_PIPELINES,
        "actors/instances",
        "kraal/converters",
        "kraal/journal",
        "kraal/testing",
        "tests/fakes/tables",
        "tests/fakes/workers/worker_config.py",
    ),
    "tests/unit/deploy": (
        "deploy",
        "Dockerfile",
        "compose.yaml",
        "scripts/image",
        "tests/tools",
        *_PACKAGING,
    ),
    "tests/unit/docs_site": ("docs", "mkdocs.yml", "scripts"),
    "tests/unit/plugin_lock/test_change": (
        *_PACKAGING,
        "kraal/cli",
        "kraal/jars",
        "kraal/plugin_lock",
        "tests/fakes/distributions.py",
    ),
    "tests/unit/test_plugin_howto": (
        *_PACKAGING,
        "docs/plugin-howto.md",
        "kraal/cli",
        "kraal/client",
        "kraal/config",
        "kraal/core",
        "kraal/jars",
        "kraal/plugin_lock",
        "kraal/plugins",
        "kraal/scaffold",
        "kraal/testing",
        "tests/fakes/workers/howto.py",
    ),
}
"""Files and directories on which tests depend in addition to their own files, by prefix of the tests' paths."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--by-change", action="store_true", help="skip tests whose dependencies have not changed"
    )


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Report the skipped tests."""
    if not config.getoption("by_change"):
        return []
    commit = GREEN.read_text("utf-8").strip()
    skipped = sorted(_find_skipped(config.rootpath))
    return [f"unchanged since the green run of {commit[:8]}, skipped: {', '.join(skipped) or 'none'}"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose dependencies have not changed."""
    if not config.getoption("by_change") or not (skipped := tuple(_find_skipped(config.rootpath))):
        return
    deselected = {item for item in items if str(item.path.relative_to(config.rootpath)).startswith(skipped)}
    if deselected:
        config.hook.pytest_deselected(items=list(deselected))
        items[:] = [item for item in items if item not in deselected]


def find_unaffected(changed: Iterable[str]) -> set[str]:
    """Return the keys of DEPENDENCIES that no changed file affects."""
    paths = list(changed)
    return {
        tests
        for tests, folders in DEPENDENCIES.items()
        if not any(path.startswith(tests) or _is_within(path, folders) for path in paths)
    }


def _is_within(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _find_skipped(root: Path) -> set[str]:
    commit = GREEN.read_text("utf-8").strip()
    command = ["git", "diff", "--name-only", "-z", commit]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    return find_unaffected(filter(None, result.stdout.split("\0"))) if result.returncode == 0 else set()
