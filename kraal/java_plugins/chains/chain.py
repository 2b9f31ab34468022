"""The Java transforms and converters of one Python task, which run in the plugins' JVM.

The passes implement the interfaces of `kraal.engine.records.source_pass.SourcePass` and `sink_pass.SinkPass`, and
handle faults, dead letters and topics as these classes do; only the records are processed in Java. The passes run in
this process, or in Spark's Python processes on the same machine. Each pass has a separate connection.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kraal.java_plugins.chains.connection import ChainAddress
from kraal.java_plugins.chains.sink_pass import JavaSinkPass
from kraal.java_plugins.chains.source_pass import JavaSourcePass

if TYPE_CHECKING:
    from kraal.engine.records.sink_pass import SinkPass
    from kraal.engine.records.source_pass import SourcePass
    from kraal.plugins.api import SourceBatch


@dataclass(frozen=True, slots=True)
class JavaChain:
    """The chain of one Python task. Implements `kraal.engine.api.RemoteChain`. Picklable."""

    address: ChainAddress

    def source_pass(
        self, local: SourcePass, batch: SourceBatch, cancelled: threading.Event | None
    ) -> JavaSourcePass:
        """Return the pass for a source's batch."""
        partition, offset = next(iter(batch.offsets.items()), (None, None))
        return JavaSourcePass(
            chain=self.address,
            local=local,
            source_partition=None if partition is None else dict(partition.as_dict()),
            source_offset=None if offset is None else dict(offset),
            cancelled=cancelled,
        )

    def sink_pass(self, local: SinkPass, cancelled: threading.Event | None) -> JavaSinkPass:
        """Return the pass for a sink's batch."""
        return JavaSinkPass(chain=self.address, local=local, cancelled=cancelled)
