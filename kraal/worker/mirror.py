"""Processes of `kraal mirror`: a worker for each flow of MirrorMaker's properties file.

With several flows, each worker is a separate process, and the parent process forwards signals. If one worker exits, all
other workers are stopped too, so that the supervisor of the command detects the failure.
Source: MirrorMaker, MirrorHerder (Kafka 4.3.0).
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from actors.assembly import Assembly
from kraal.config.connector.files import ConnectorFile
from kraal.config.properties_file import read_properties
from kraal.config.worker.distributed import DistributedConfig, parse_distributed
from kraal.core.errors import (
    ActorDied,
    BadRequest,
    KraalError,
    NotLeader,
    RetryableConflict,
    TimedOut,
    Unavailable,
)
from kraal.core.ids import ConnectorName
from kraal.core.logging import LogFormat, context_filter
from kraal.core.private_files import SHARED_DIRECTORY, make_directory
from kraal.jars.directories import cache_dir
from kraal.jars.jars import ensure
from kraal.java_plugins.services import resolve_worker_config
from kraal.plugins.registry import Registry
from kraal.worker.distributed import DistributedProcess
from kraal.worker.mirror_flows import Flow, connector_configs, kraal_config, parse_flows
from kraal.worker.standalone import apply_file

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot

log = logging.getLogger(__name__)

JAR_GROUP: Final = "mirror"
CHECK_INTERVAL_S: Final = 0.25
"""Interval at which a worker checks whether it is the leader."""
_RETRIABLE_ERRORS: Final = (RetryableConflict, NotLeader, Unavailable, TimedOut, ActorDied)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_FORCED_EXIT_CODE: Final = 5
"""Exit code after a second signal, as for other workers."""


def mirror_plugins() -> Path:
    """Return a directory for `plugin.path` with MirrorMaker's jars, downloaded on first use.

    Raises JarsUnavailable, JavaMissing, OSError.
    """
    jars = ensure(JAR_GROUP)
    digest = hashlib.sha256("\n".join(jar.name for jar in jars).encode()).hexdigest()[:16]
    directory = cache_dir() / "mirror" / digest
    if not directory.exists():
        make_directory(directory.parent, SHARED_DIRECTORY)
        with tempfile.TemporaryDirectory(prefix=".copy-", dir=directory.parent) as scratch_directory:
            plugin_directory = Path(scratch_directory) / "plugins" / "connect-mirror"
            make_directory(plugin_directory, SHARED_DIRECTORY)
            for jar in jars:
                shutil.copy(jar, plugin_directory)
            try:
                plugin_directory.parent.rename(directory)
            except OSError:
                if not directory.exists():  # another process created it
                    raise
    return directory


class Leadership:
    """Configuration of a flow's connectors when this worker becomes the leader, as in MirrorMaker. Not thread-safe."""

    def __init__(self, assembly: Assembly, configs: Mapping[str, Mapping[str, str]]) -> None:
        self._assembly = assembly
        self._files = [
            ConnectorFile(name=ConnectorName(name), config=config, initial_state=None)
            for name, config in configs.items()
        ]
        self._is_done = False

    def check(self) -> None:
        """Configure the connectors once after this worker has become the leader."""
        snapshot = self._assembly.published.latest
        if not _is_leader(snapshot):
            self._is_done = False
        elif not self._is_done:
            pending_files = [file for file in self._files if not self._try_apply(file)]
            self._is_done = not pending_files

    def _try_apply(self, file: ConnectorFile) -> bool:
        """Create or update one connector. Return False if another attempt is necessary."""
        try:
            apply_file(self._assembly, file)
        except _RETRIABLE_ERRORS as error:
            log.info("Failed to configure connector %s; retrying: %s", file.name, error)
            return False
        except KraalError as error:
            log.error("Failed to configure connector %s: %s", file.name, error)  # noqa: TRY400 - the text suffices
        return True


def _is_leader(snapshot: Snapshot) -> bool:
    return snapshot.ready and snapshot.live and snapshot.is_leader


class FlowProcess(DistributedProcess):
    """The process of one flow's worker: a distributed worker that runs only Java plugins."""

    def __init__(
        self, config: DistributedConfig, flow: Flow, configs: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Bind the sockets. `configs` are connector configs by name. Raises KraalError with a message for operators."""
        super().__init__(config)
        self._configs = configs
        context_filter.worker = str(flow)

    @override
    def _on_started(self, assembly: Assembly) -> None:
        super()._on_started(assembly)
        leadership = Leadership(assembly, self._configs)

        def check_leadership() -> None:
            while not self._ended.wait(CHECK_INTERVAL_S):
                leadership.check()

        threading.Thread(target=check_leadership, name="leadership", daemon=True).start()


def run_mirror(
    file: Path, *, targets: Sequence[str], flow: str | None, is_child: bool, log_format: LogFormat
) -> int:
    """Run the workers of all flows into `targets`, or the worker of one flow, until a signal; return the exit code.

    A child also exits when its standard input is closed. Raises KraalError if startup fails.
    """
    raw = read_properties(file, "MirrorMaker configuration")
    flows = parse_flows(raw, targets)
    if flow is None and len(flows) > 1:
        mirror_plugins()  # download the jars once, before several processes need them
        return run_processes([_build_command(file, flow_to_run, log_format) for flow_to_run in flows])
    matching_flow = _find_flow(raw, flow) if flow is not None else flows[0]
    flow_index = parse_flows(raw).index(matching_flow)
    worker_properties = kraal_config(raw, matching_flow, flow_index, [str(mirror_plugins())])
    config = parse_distributed(resolve_worker_config(worker_properties), resolve=Registry.load().resolve)
    for warning in config.warnings:
        log.warning("%s", warning)
    process = FlowProcess(config, matching_flow, connector_configs(raw, matching_flow))
    process.end_on_signals()
    if is_child:
        threading.Thread(target=_exit_with_parent, args=(process,), name="parent", daemon=True).start()
    return process.run()


def _find_flow(raw: Mapping[str, str], text: str) -> Flow:
    all_flows = parse_flows(raw)
    if text not in map(str, all_flows):
        raise BadRequest(f"Unknown flow '{text}'; expected one of {', '.join(map(str, all_flows))}.")
    return Flow.parse(text)


def _build_command(file: Path, flow: Flow, log_format: LogFormat) -> list[str]:
    directory = str(Path(__file__).parents[2])  # in a checkout, the package may not be installed
    code = f"import sys; sys.path.append({directory!r}); from kraal.cli.main import main; main()"
    options = ["--flow", str(flow), "--child", "--log-format", log_format.value]
    return [sys.executable, "-P", "-c", code, "mirror", str(file), *options]


def _exit_with_parent(process: FlowProcess) -> None:
    """Stop the process when its standard input is closed because the parent process has exited."""
    while os.read(0, 1):
        pass
    process.end()


def run_processes(commands: Sequence[Sequence[str]]) -> int:
    """Run processes until one exits or a signal arrives, then stop all; return the first nonzero exit code, or 0."""
    queue: SimpleQueue[subprocess.Popen[bytes] | None] = SimpleQueue()
    for signal_number in _SIGNALS:
        signal.signal(signal_number, lambda *_: queue.put(None))
    running_processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)  # only this process receives Ctrl-C
        for command in commands
    ]
    for process in running_processes:
        threading.Thread(target=_wait, args=(process, queue), name="worker", daemon=True).start()
    codes: list[int] = []
    is_stopping = False
    while running_processes:
        ended_process = queue.get()
        if ended_process is not None:
            running_processes.remove(ended_process)
            codes.append(
                ended_process.returncode if ended_process.returncode >= 0 else 128 - ended_process.returncode
            )
        elif is_stopping:
            for process in running_processes:
                process.kill()
            return _FORCED_EXIT_CODE
        if not is_stopping:
            is_stopping = True
            for process in running_processes:
                process.send_signal(signal.SIGTERM)
    return next((code for code in codes if code), 0)


def _wait(process: subprocess.Popen[bytes], queue: SimpleQueue[subprocess.Popen[bytes] | None]) -> None:
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
    queue.put(process)
