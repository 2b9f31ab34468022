from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from scripts.chaos_run.kinds.pools import DETECTION_TIME_S, VARIANTS
from scripts.chaos_run.kinds.targets import SLEEP_S
from scripts.chaos_run.pipes import MAX_POLL_S
from scripts.chaos_run.schedule import (
    HOLD_S,
    INITIAL_DELAY_S,
    KINDS,
    LONG_RUN_S,
    OUTAGE_S,
    RECOVERY_S,
    SESSION_TIMEOUT_S,
    Actor,
    HeavyFault,
    Request,
    choose,
    get_kind,
    schedule,
)

SEEDS = range(20)
HOUR_S = 3_600.0
REPEATABLE_FAULTS = set(HeavyFault) - {HeavyFault.OUTAGE}
GRACEFUL_S = 5.0
"""The value of `task.shutdown.graceful.timeout.ms` in seconds."""


def test_schedule_depends_only_on_the_seed() -> None:
    assert schedule(7, 180, 3) == schedule(7, 180, 3)
    schedule_7, schedule_8 = schedule(7, 180, 3), schedule(8, 180, 3)
    assert schedule_7.heavy != schedule_8.heavy
    assert schedule_7.actors != schedule_8.actors
    assert schedule_7.requests != schedule_8.requests


def test_schedule_of_a_seed_is_stable() -> None:
    steps = schedule(7, 180, 3)
    assert [(step.at_s, step.fault, step.worker) for step in steps.heavy[:3]] == [
        (3.0, HeavyFault.OVERLAP_RESTART, 2),
        (15.9, HeavyFault.FREEZE_JVM, 0),
        (34.1, HeavyFault.FULL_DISK, 1),
    ]


def test_longer_schedule_starts_with_the_shorter_schedule() -> None:
    short_schedule, long_schedule = schedule(3, 180, 3), schedule(3, HOUR_S, 3)
    assert long_schedule.heavy[: len(short_schedule.heavy)] == short_schedule.heavy
    assert long_schedule.actors[: len(short_schedule.actors)] == short_schedule.actors
    assert long_schedule.requests[: len(short_schedule.requests)] == short_schedule.requests


@pytest.mark.parametrize("seed", SEEDS)
def test_heavy_faults_are_sequential_with_recovery_time(seed: int) -> None:
    steps = schedule(seed, 180, 3).heavy
    assert steps[0].at_s >= INITIAL_DELAY_S
    for step, next_step in itertools.pairwise(steps):
        assert next_step.at_s >= step.at_s + step.hold_s + RECOVERY_S[0] - 0.2, "seconds are rounded"
    assert steps[-1].at_s + steps[-1].hold_s + RECOVERY_S[0] <= 180.2
    for step in steps:
        min_hold_s, max_hold_s = HOLD_S[step.fault]
        assert min_hold_s - 0.1 <= step.hold_s <= max_hold_s + 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_every_fault_occurs_once_before_a_repetition(seed: int) -> None:
    faults = [step.fault for step in schedule(seed, HOUR_S, 3).heavy if step.fault is not HeavyFault.OUTAGE]
    for start in range(0, len(faults) - len(REPEATABLE_FAULTS), len(REPEATABLE_FAULTS)):
        assert set(faults[start : start + len(REPEATABLE_FAULTS)]) == REPEATABLE_FAULTS
    assert max(Counter(faults).values()) - min(Counter(faults).values()) <= 1


@pytest.mark.parametrize("seed", SEEDS)
def test_actor_kills_do_not_exceed_the_restart_limit(seed: int) -> None:
    deaths = defaultdict(list)
    for step in schedule(seed, HOUR_S, 3).actors:
        deaths[step.actor, step.worker].append(step.at_s)
    for times in deaths.values():
        for first, sixth in zip(times, times[5:], strict=False):
            assert sixth - first > 60 + 2, (
                "more than five deaths in a minute stop a worker; kills may be up to 2 s late"
            )


def test_schedule_of_an_hour_contains_every_kind() -> None:
    steps = schedule(1, HOUR_S, 3)
    assert {step.fault for step in steps.heavy} == set(HeavyFault)
    assert {step.actor for step in steps.actors} == set(Actor)
    assert {step.request for step in steps.requests} == set(Request)
    assert {step.worker for step in steps.heavy} == {0, 1, 2}


def test_freeze_outlasts_the_session_timeout() -> None:
    freeze_faults = (
        HeavyFault.FREEZE_PYTHON,
        HeavyFault.FREEZE_JVM,
        HeavyFault.FREEZE_BOTH,
        HeavyFault.OVERLAP_FROZEN,
        HeavyFault.SUSPEND,
    )
    for fault in freeze_faults:
        assert HOLD_S[fault][0] > SESSION_TIMEOUT_S


def test_schedule_contains_only_the_selected_kinds() -> None:
    steps = schedule(1, HOUR_S, 3, ["cut"])
    assert {step.fault for step in steps.heavy} == {HeavyFault.CUT}
    assert not steps.actors
    assert not steps.requests
    assert schedule(1, HOUR_S, 3, ["actors"]) == replace(schedule(1, HOUR_S, 3), heavy=(), requests=())
    assert schedule(1, HOUR_S, 3, []).heavy == ()


def test_first_faults_precede_all_others() -> None:
    first_kinds = ["overlap-frozen", "move-back"]
    steps = schedule(1, HOUR_S, 3, first=first_kinds).heavy
    assert [get_kind(step.fault) for step in steps[:2]] == first_kinds
    assert {step.fault for step in steps[: len(HeavyFault)]} == set(HeavyFault)
    assert steps != schedule(1, HOUR_S, 3).heavy


def test_hang_times_are_shorter_and_longer_than_the_timeouts() -> None:
    holds = [step.hold_s for step in schedule(1, HOUR_S, 3, ["exhaust-pool"]).heavy]
    assert min(holds) < GRACEFUL_S < DETECTION_TIME_S < max(holds)


def test_every_variant_of_pool_exhaustion_occurs_within_an_hour() -> None:
    picks = [step.pick for step in schedule(1, HOUR_S, 3, ["exhaust-pool"]).heavy]
    assert {choose(VARIANTS, pick) for pick in picks} == set(VARIANTS)


def test_slow_target_lasts_for_several_batches() -> None:
    assert SLEEP_S > MAX_POLL_S, "the group evicts the member meanwhile"
    assert HOLD_S[HeavyFault.SLOW_TARGET][0] > 3 * SLEEP_S


def test_every_fault_has_a_command_line_name() -> None:
    for fault in HeavyFault:
        assert {step.fault for step in schedule(1, HOUR_S, 3, [get_kind(fault)]).heavy} == {fault}
        assert get_kind(fault) in KINDS


@pytest.mark.parametrize(
    ("pick", "expected"), [(0.0, "a"), (0.33, "a"), (0.34, "b"), (0.99, "c"), (0.999999, "c")]
)
def test_pick_selects_a_name_independently_of_the_order(pick: float, expected: str) -> None:
    assert choose(["c", "a", "b"], pick) == expected
    assert choose([], pick) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_long_run_has_one_outage_after_all_other_faults(seed: int) -> None:
    for seconds in (LONG_RUN_S, HOUR_S):
        steps = schedule(seed, seconds, 3).heavy
        [index] = [number for number, step in enumerate(steps) if step.fault is HeavyFault.OUTAGE]
        assert {step.fault for step in steps[:index]} == REPEATABLE_FAULTS
        assert steps[index].hold_s == OUTAGE_S
    assert HeavyFault.OUTAGE not in {step.fault for step in schedule(seed, LONG_RUN_S - 1, 3).heavy}


def test_short_run_has_an_outage_on_request() -> None:
    [step] = schedule(1, 180, 3, ["outage"], outage_s=60).heavy
    assert (step.fault, step.hold_s) == (HeavyFault.OUTAGE, 60)
    steps = schedule(1, 180, 3, first=["kill-lane", "outage"], outage_s=60).heavy
    assert [step.fault for step in steps[:2]] == [HeavyFault.KILL_LANE, HeavyFault.OUTAGE]
    assert HeavyFault.OUTAGE not in {step.fault for step in steps[2:]}
