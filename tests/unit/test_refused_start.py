"""What a distributed worker refuses at its start although its file can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraal.distributed import run_distributed
from kraal.errors import KraalError
from tests.fakes.worker_config import LEAST


def test_transactions_of_sources_are_refused_for_now(tmp_path: Path) -> None:
    given = {**LEAST, "exactly.once.source.support": "enabled"}
    file = tmp_path / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in given.items()), encoding="utf-8")
    with pytest.raises(KraalError, match=r"^exactly\.once\.source\.support=enabled is refused for now"):
        run_distributed(file)
