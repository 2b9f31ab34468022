"""The schedule of faults, which is a pure function of the seed, so that a seed reproduces a run.

There are three kinds of steps, and each kind is executed in its own thread. Heavy faults (processes, Spark, the broker,
connections) are sequential: each is undone after `hold_s`, and is followed by time for recovery. Actors are killed and
clients send requests both during and between heavy faults.

Steps do not contain process ids or ports, because these differ between runs. They contain the number of a worker, and
`pick`, a number below 1 that selects one of the candidates that exist when the step is executed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SESSION_TIMEOUT_S: Final = 6.0
"""`session.timeout.ms` of the workers."""
FREEZE_S: Final = SESSION_TIMEOUT_S + 3.0
"""Duration of a freeze, which is longer than the session timeout."""
RECOVERY_S: Final = (5.0, 12.0)
"""Minimum and maximum time from the repair of a heavy fault to the next one."""
ACTOR_INTERVAL_S: Final = (2.0, 6.0)
MIN_KILL_INTERVAL_S: Final = 14.0
"""Minimum time between two kills of the same actor; more than five deaths in 60 s stop the worker by design."""
REQUEST_INTERVAL_S: Final = (0.3, 1.5)
INITIAL_DELAY_S: Final = 3.0
"""Time before the first step."""
OUTAGE_S: Final = 600.0
"""Duration of the long outage of the broker."""
LONG_RUN_S: Final = 1_800.0
"""Minimum duration of runs with a long outage, unless `--first` or `--only` requests the outage.

The outage occurs after every other fault has occurred once.
"""


class HeavyFault(StrEnum):
    """Faults that last for a while and are then undone."""

    KILL_WORKER = "kill -9 of a worker"
    FREEZE_PYTHON = "SIGSTOP of a worker's Python"
    FREEZE_JVM = "SIGSTOP of a worker's JVM"
    FREEZE_BOTH = "SIGSTOP of a worker's Python and JVM"
    KILL_JVM = "kill -9 of a worker's JVM"
    STOP_BROKER = "stop of the broker"
    KILL_BROKER = "kill -9 of the broker"
    DELAY = "delay of a worker's connections to Kafka"
    CUT = "cut of a worker's connections to Kafka"
    HALF_OPEN = "half-open connections of a worker to Kafka"
    FULL_DISK = "full disk, under a worker whose JVM is killed"
    READ_ONLY_DISK = "read-only data directory of a worker whose JVM is killed"
    SLOW_TARGET = "slow target of a sink"
    HANG_TARGET = "hanging target of a sink"
    MOVE_BACK = "partition of a sink that moves away and back uncommitted"
    OVERLAP_RESTART = "restart of a task that hangs in its target"
    OVERLAP_FROZEN = "SIGSTOP of the Python of a task that hangs in its target"
    SUSPEND = "suspension of a worker"
    EXHAUST_POOL = "more hanging tasks than workers have threads"
    KILL_LANE = "kill of a lane's Spark job"
    KILL_FULL_JVM = "kill -9 of a JVM whose lane waits for the broker"
    HOSTILE_RECORDS = "records that are hard to read"
    SMALL_TOPIC = "topic with a small max.message.bytes"
    STARVE = "processes that take all cores"
    OUTAGE = "long outage of the broker"


HOLD_S: Final[dict[HeavyFault, tuple[float, float]]] = {
    HeavyFault.KILL_WORKER: (1.0, 4.0),
    HeavyFault.FREEZE_PYTHON: (FREEZE_S, FREEZE_S),
    HeavyFault.FREEZE_JVM: (FREEZE_S, FREEZE_S),
    HeavyFault.FREEZE_BOTH: (FREEZE_S, FREEZE_S),
    HeavyFault.KILL_JVM: (0.0, 0.0),
    HeavyFault.STOP_BROKER: (2.0, 5.0),
    HeavyFault.KILL_BROKER: (0.5, 4.0),
    HeavyFault.DELAY: (4.0, 10.0),
    HeavyFault.CUT: (0.5, 8.0),
    HeavyFault.HALF_OPEN: (3.0, 10.0),
    HeavyFault.FULL_DISK: (4.0, 8.0),
    HeavyFault.READ_ONLY_DISK: (4.0, 8.0),
    HeavyFault.SLOW_TARGET: (30.0, 36.0),
    HeavyFault.HANG_TARGET: (8.0, 14.0),
    HeavyFault.MOVE_BACK: (1.0, 4.0),
    HeavyFault.OVERLAP_RESTART: (1.0, 3.0),
    HeavyFault.OVERLAP_FROZEN: (FREEZE_S, FREEZE_S),
    HeavyFault.SUSPEND: (FREEZE_S, FREEZE_S),
    HeavyFault.EXHAUST_POOL: (2.0, 22.0),
    HeavyFault.KILL_LANE: (2.0, 6.0),
    HeavyFault.KILL_FULL_JVM: (0.0, 1.0),
    HeavyFault.HOSTILE_RECORDS: (2.0, 6.0),
    HeavyFault.SMALL_TOPIC: (10.0, 20.0),
    HeavyFault.STARVE: (15.0, 30.0),
    HeavyFault.OUTAGE: (OUTAGE_S, OUTAGE_S),
}
"""Minimum and maximum duration of each fault in seconds."""


def get_kind(fault: HeavyFault) -> str:
    """Return the name of a fault on the command line, such as `kill-worker`."""
    return fault.name.lower().replace("_", "-")


ACTORS: Final = "actors"
CLIENTS: Final = "clients"
KINDS: Final = (*map(get_kind, HeavyFault), ACTORS, CLIENTS)
"""The kinds of faults, as named on the command line."""


class Actor(StrEnum):
    """Kinds of actors, by the prefixes of their addresses."""

    TASK = "task "
    CONNECTOR = "connector "
    HERDER = "herder"
    WORKER = "worker"
    MEMBERSHIP = "membership"
    CONFIG_READER = "config reader"
    STATUS_READER = "status reader"
    CONFIG_WRITER = "config writer"
    STATUS_WRITER = "status writer"
    OFFSETS = "offsets"
    OFFSET_SERVICE = "offset service"
    VALIDATOR = "validator"
    PUBLISHER = "publisher"
    FENCER = "fencer"
    LEDGER = "ledger"


class Request(StrEnum):
    """Kinds of client requests. Side connectors are temporary, and the delivery of their records is not checked."""

    CREATE_SIDE = "create a side connector"
    DELETE_SIDE = "delete a side connector"
    CONFIGURE_SIDE = "put a side connector's config"
    CONFIGURE_PIPE = "put a pipe's config"
    RESTART = "restart a connector"
    RESTART_ALL = "restart a connector with its tasks"
    RESTART_TASK = "restart a task"
    PAUSE = "pause a connector"
    RESUME = "resume a connector"
    STATUS = "get a connector's status"
    LIST = "list all connectors"
    OFFSETS = "get a connector's offsets"


_WEIGHTS: Final[dict[Request, int]] = {
    Request.CREATE_SIDE: 3,
    Request.DELETE_SIDE: 3,
    Request.CONFIGURE_SIDE: 2,
    Request.CONFIGURE_PIPE: 1,
    Request.RESTART: 1,
    Request.RESTART_ALL: 1,
    Request.RESTART_TASK: 1,
    Request.PAUSE: 1,
    Request.RESUME: 3,
    Request.STATUS: 4,
    Request.LIST: 2,
    Request.OFFSETS: 1,
}


@dataclass(frozen=True, slots=True)
class HeavyStep:
    """A step that injects a fault and undoes it after `hold_s` seconds.

    `worker` is the number of the affected worker; some faults ignore it. `pick` selects a variant of the fault.
    """

    at_s: float
    fault: HeavyFault
    worker: int
    hold_s: float
    pick: float = 0.0


@dataclass(frozen=True, slots=True)
class ActorStep:
    """A step that kills an actor of this kind on the worker with this number; `pick` selects the actor."""

    at_s: float
    actor: Actor
    worker: int
    pick: float


@dataclass(frozen=True, slots=True)
class RequestStep:
    """A step that sends a request to the worker with this number; `pick` selects the connector."""

    at_s: float
    request: Request
    worker: int
    pick: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """All steps, each kind in chronological order; times are seconds from the start."""

    heavy: tuple[HeavyStep, ...]
    actors: tuple[ActorStep, ...]
    requests: tuple[RequestStep, ...]


def schedule(
    seed: int,
    seconds: float,
    workers: int,
    kinds: Sequence[str] = KINDS,
    first: Sequence[str] = (),
    outage_s: float = OUTAGE_S,
) -> Schedule:
    """Return the steps of a run of `seconds`. Every fault is undone early enough that the cluster can recover.

    `kinds`: the enabled kinds, a subset of `KINDS`. `first`: heavy faults to inject before all others, in this order.
    `outage_s`: duration of the long outage.
    """
    faults = [fault for fault in HeavyFault if get_kind(fault) in kinds]
    initial = [fault for kind in first for fault in faults if get_kind(fault) == kind]
    return Schedule(
        heavy=tuple(_yield_heavy_steps(_random(seed, "heavy"), seconds, workers, faults, initial, outage_s)),
        actors=tuple(_yield_actor_steps(_random(seed, "actors"), seconds, workers))
        if ACTORS in kinds
        else (),
        requests=tuple(_yield_request_steps(_random(seed, "requests"), seconds, workers))
        if CLIENTS in kinds
        else (),
    )


def choose(names: Sequence[str], pick: float) -> str | None:
    """Return the name that `pick`, a number below 1, selects from the sorted names; None if there are no names."""
    return sorted(names)[int(pick * len(names))] if names else None


def _random(seed: int, part: str) -> random.Random:
    return random.Random(f"{seed} {part}")  # noqa: S311 - chaos, not secrets


def _yield_heavy_steps(
    generator: random.Random,
    seconds: float,
    workers: int,
    faults: Sequence[HeavyFault],
    first: Sequence[HeavyFault],
    outage_s: float,
) -> Iterator[HeavyStep]:
    at_s = INITIAL_DELAY_S
    repeatable_faults = [fault for fault in faults if fault is not HeavyFault.OUTAGE]
    other_faults = [fault for fault in repeatable_faults if fault not in first]
    pending_faults = [*generator.sample(other_faults, len(other_faults)), *reversed(first)]
    has_outage = seconds >= LONG_RUN_S or not repeatable_faults
    if HeavyFault.OUTAGE in faults and HeavyFault.OUTAGE not in pending_faults and has_outage:
        pending_faults = [HeavyFault.OUTAGE, *pending_faults]
    while faults:
        if not pending_faults:  # every fault occurs once before any is repeated
            pending_faults = generator.sample(repeatable_faults, len(repeatable_faults))
        if not pending_faults:
            return
        fault = pending_faults.pop()
        hold = outage_s if fault is HeavyFault.OUTAGE else generator.uniform(*HOLD_S[fault])
        next_s = at_s + hold + generator.uniform(*RECOVERY_S)
        if next_s > seconds:
            return
        worker, pick = generator.randrange(workers), round(generator.random(), 6)
        yield HeavyStep(round(at_s, 1), fault, worker, round(hold, 1), pick)
        at_s = next_s


def _yield_actor_steps(generator: random.Random, seconds: float, workers: int) -> Iterator[ActorStep]:
    at_s, last_deaths = INITIAL_DELAY_S, dict[tuple[Actor, int], float]()
    while (at_s := at_s + generator.uniform(*ACTOR_INTERVAL_S)) < seconds:
        # Tasks, connectors and herders are chosen more often.
        actor = generator.choice([*Actor, *[Actor.TASK] * 3, *[Actor.CONNECTOR] * 2, *[Actor.HERDER] * 2])
        worker, pick = generator.randrange(workers), round(generator.random(), 6)
        if at_s - last_deaths.get((actor, worker), -MIN_KILL_INTERVAL_S) >= MIN_KILL_INTERVAL_S:
            last_deaths[actor, worker] = at_s
            yield ActorStep(round(at_s, 1), actor, worker, pick)


def _yield_request_steps(generator: random.Random, seconds: float, workers: int) -> Iterator[RequestStep]:
    at_s = 0.0
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    while (at_s := at_s + generator.uniform(*REQUEST_INTERVAL_S)) < seconds:
        [request] = generator.choices(kinds, weights)
        yield RequestStep(round(at_s, 1), request, generator.randrange(workers), round(generator.random(), 6))
