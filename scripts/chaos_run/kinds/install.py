"""Makes the script's plugins available to workers through the entry points of an installed package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILE_SINK: Final = "chaos.HangingFileSinkConnector"
FILES_SINK: Final = "chaos.HangingFilesSinkConnector"
SOURCE: Final = "chaos.HangingSourceConnector"
_MODULE: Final = "scripts.chaos_run.kinds.plugins"


def install(directory: Path) -> None:
    """Write the package's metadata, and add the directory to the PYTHONPATH of processes that are started later."""
    package = directory / "kraal_chaos-1.dist-info"
    package.mkdir(parents=True, exist_ok=True)
    (package / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: kraal-chaos\nVersion: 1\n", encoding="ascii"
    )
    entries = "".join(
        f"{name} = {_MODULE}:{name.rpartition('.')[2]}\n" for name in (FILE_SINK, FILES_SINK, SOURCE)
    )
    (package / "entry_points.txt").write_text(f"[kraal.connectors]\n{entries}", encoding="ascii")
    paths = [str(directory), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
