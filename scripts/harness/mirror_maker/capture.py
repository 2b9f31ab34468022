"""Captures what Kafka's MirrorMaker derives from the properties files in `tests/golden/mirror_maker/VERSION`.

    python -m scripts.harness.mirror_maker.capture

Writes a JSON file next to each. Needs Java's compiler, and the jars of `connect`; takes seconds.
"""

from __future__ import annotations

from kraal.jars.lock import KAFKA
from scripts.harness.capture_config_golden import GOLDEN, printed, write


def main() -> None:
    """Write all files."""
    for path in sorted((GOLDEN / "mirror_maker" / KAFKA).glob("*.properties")):
        write(path.with_suffix(".json"), printed("mirror_maker/MirrorMakerConfigs.java", str(path)))


if __name__ == "__main__":
    main()
