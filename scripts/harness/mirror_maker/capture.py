"""Captures the configs that Kafka's MirrorMaker derives from properties files in `tests/golden/mirror_maker/VERSION`.

    python -m scripts.harness.mirror_maker.capture

Writes a JSON file next to each properties file. Uses the MirrorMaker in the jars of `connect`, and the runtime and
clients of the current version. For a new version, copy the properties files first. Takes a few seconds. Requires
Java's compiler.
"""

from __future__ import annotations

from scripts.harness.capture_config_golden import GOLDEN, run_program, write
from scripts.harness.java_connect import CURRENT


def main() -> None:
    """Write all files."""
    for path in sorted((GOLDEN / "mirror_maker" / CURRENT).glob("*.properties")):
        write(path.with_suffix(".json"), run_program("mirror_maker/MirrorMakerConfigs.java", str(path)))


if __name__ == "__main__":
    main()
