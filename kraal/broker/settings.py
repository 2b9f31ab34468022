"""Config files of a broker that Kraal starts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

DEFAULT_PORT = 9092
CONTROLLER_ID = 1

LOG4J2 = """<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN">
  <Appenders>
    <RollingFile name="file" fileName="{log}" filePattern="{log}.%i">
      <PatternLayout pattern="[%d] %p %m (%c)%n"/>
      <Policies><SizeBasedTriggeringPolicy size="20 MB"/></Policies>
      <DefaultRolloverStrategy max="3"/>
    </RollingFile>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


def server_properties(
    data_dir: Path, *, port: int, controller_port: int, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the config of a single broker on loopback that starts quickly; `extra` overrides settings."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(CONTROLLER_ID),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller_port}",
        "log.dirs": str(data_dir / "logs"),
        # Internal topics have three replicas by default, which a single node cannot store.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "num.partitions": "1",
        # Fewer than the default of 50, which take a second to create.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        # Do not write no-op records while the controller is idle; the default is one every half second.
        "metadata.max.idle.interval.ms": "0",
        # Do not wait for further members of a group; the default is three seconds.
        "group.initial.rebalance.delay.ms": "0",
        # After kill -9, a new broker is rejected until the session of the old one expires (default: 9 s).
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    return settings | dict(extra)


def write_files(data_dir: Path, settings: Mapping[str, str], *, log: Path) -> None:
    """Write `server.properties` and `log4j2.xml` into `data_dir`."""
    lines = [f"{key}={value}" for key, value in settings.items()]
    (data_dir / "server.properties").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (data_dir / "log4j2.xml").write_text(LOG4J2.format(log=log), encoding="utf-8")
