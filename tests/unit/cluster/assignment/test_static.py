"""Tests for static assignments, according to KIP-987 (steps and example) and docs/static-assignments.md.

The leader's input is tested in test_static_group.py, and a worker's lists in tests/unit/config/worker/test_static.py.
"""

from __future__ import annotations

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.static import assign_statically
from kraal.core.ids import ConnectorName
from kraal.protocol.group import ConnectorOrTask
from tests.fakes.cluster.static_scenario import (
    FIVE_MINUTES_MS,
    StaticScenario,
    count_connectors_and_tasks,
    parse_instances,
)


def create_example() -> StaticScenario:
    """Return the example of KIP-987: w1 is static, w2 and w3 are balanced wildcard workers."""
    scenario = StaticScenario()
    scenario.join("w1", "c1 c1-0")
    scenario.join("w2")
    scenario.join("w3")
    scenario.settle()
    return scenario


def sorted_instance_counts(scenario: StaticScenario, *names: str) -> tuple[list[int], list[int]]:
    """Return the sorted connector counts and the sorted task counts of these workers."""
    loads = [count_connectors_and_tasks(scenario.workers[name]) for name in names]
    return sorted(load[0] for load in loads), sorted(load[1] for load in loads)


def test_kip_987_example_is_assigned_as_specified() -> None:
    scenario = create_example()
    assert scenario.list_instances("w1") == {"c1", "c1-0"}
    assert sorted_instance_counts(scenario, "w2", "w3") == ([0, 1], [1, 2])
    instances_of_w1 = scenario.leave("w1")
    scenario.rebalance()
    assert (scenario.last.delay_ms, scenario.assigned(), scenario.revoked()) == (FIVE_MINUTES_MS, {}, {})
    scenario.rebalance(after_ms=FIVE_MINUTES_MS)
    assert sorted_instance_counts(scenario, "w2", "w3") == ([1, 1], [2, 2])
    scenario.join("w1", "c1 c1-0")
    scenario.rebalance()
    assert set().union(*scenario.revoked().values()) == {"c1", "c1-0"}
    assert not scenario.assigned()
    scenario.rebalance()
    assert scenario.assigned() == {"w1": {"c1", "c1-0"}}
    assert scenario.running().keys() >= set(instances_of_w1)
    scenario.check_stable()


def test_misplaced_instances_are_revoked() -> None:
    scenario = StaticScenario(connectors={"c1": 2})
    # Step 5: w1 is a static worker that runs a wildcard instance.
    scenario.join("w1", "c1", running=parse_instances("c1-0"))
    # Step 4: w2 is a static worker that runs a static instance of another worker.
    scenario.join("w2", "c1-1", running=parse_instances("c1"))
    # Step 3: w3 is a wildcard worker that runs a static instance.
    scenario.join("w3", running=parse_instances("c1-1"))
    scenario.rebalance()
    assert scenario.revoked() == {"w1": {"c1-0"}, "w2": {"c1"}, "w3": {"c1-1"}}
    assert not scenario.assigned()
    scenario.rebalance()
    assert scenario.assigned() == {"w1": {"c1"}, "w2": {"c1-1"}, "w3": {"c1-0"}}
    scenario.check_stable()


def test_load_balancing_makes_room_for_unassigned_wildcard_instances() -> None:
    """All wildcard instances must be balanced eventually, including those that are unassigned or revoked from w1."""
    scenario = StaticScenario(connectors={"c1": 4})
    scenario.join("w1", "c1", running=parse_instances("c1 c1-0 c1-1"))
    scenario.join("w2", running=parse_instances("c1-2 c1-3"))
    scenario.join("w3")
    scenario.rebalance()
    assert scenario.revoked() == {"w1": {"c1-0", "c1-1"}}, "w2 already has its share of the four instances"
    scenario.rebalance()
    assert scenario.assigned() == {"w3": {"c1-0", "c1-1"}}


def test_connectors_and_tasks_are_listed_separately() -> None:
    scenario = StaticScenario(connectors={"c1": 3})
    scenario.join("w1", "c1")
    scenario.join("w2")
    scenario.settle()
    assert (scenario.list_instances("w1"), scenario.list_instances("w2")) == (
        {"c1"},
        {"c1-0", "c1-1", "c1-2"},
    )


def test_listed_instance_is_static_as_soon_as_it_exists() -> None:
    scenario = StaticScenario(connectors={"c1": 1})
    scenario.join("w1", "c9 c9-0 c1-7")
    scenario.join("w2")
    scenario.settle()
    assert (scenario.list_instances("w1"), scenario.list_instances("w2")) == (set(), {"c1", "c1-0"})
    scenario.connectors["c9"] = 1
    scenario.rebalance()
    assert (scenario.assigned(), scenario.revoked()) == ({"w1": {"c9", "c9-0"}}, {})


def test_connector_named_like_a_task_is_not_that_task() -> None:
    scenario = StaticScenario(connectors={"a": 2, "a-1": 1})
    scenario.join("w1")
    scenario.join("w2")
    scenario.lists["w1"] = frozenset({ConnectorOrTask(ConnectorName("a-1"))})
    scenario.settle()
    assert scenario.workers["w1"] == [ConnectorOrTask(ConnectorName("a-1"))]
    scenario.lists["w1"] = frozenset({ConnectorOrTask(ConnectorName("a"), 1)})
    scenario.settle()
    assert scenario.workers["w1"] == [ConnectorOrTask(ConnectorName("a"), 1)]


def test_misplaced_instances_move_in_two_rounds_during_a_delay() -> None:
    scenario = create_example()
    scenario.leave("w2")
    scenario.rebalance()
    assert scenario.last.delay_ms == FIVE_MINUTES_MS
    instance = next(name for name in ("c1-1", "c2", "c2-0", "c2-1") if scenario.find_workers(name) == ["w3"])
    scenario.join("w4", instance)
    scenario.rebalance(after_ms=1_000)
    assert scenario.revoked() == {"w3": {instance}}
    assert (scenario.assigned(), scenario.last.delay_ms) == ({}, FIVE_MINUTES_MS - 1_000)
    scenario.rebalance()
    assert scenario.assigned() == {"w4": {instance}}
    assert scenario.last.delay_ms == FIVE_MINUTES_MS - 1_000, "the lost instances still wait"


def test_revocations_of_misplaced_instances_do_not_back_off() -> None:
    scenario = StaticScenario(connectors={"c1": 4, "c2": 4})
    scenario.join("w1")
    scenario.settle()
    for number, listed_instance in enumerate(("c1", "c1-0", "c1-1")):
        scenario.join(f"s{number}", listed_instance)
        scenario.rebalance()
        assert scenario.revoked() == {"w1": {listed_instance}}
        assert (scenario.last.delay_ms, scenario.state.rebalancing, scenario.state.revocations) == (
            0,
            False,
            0,
        )
        scenario.rebalance()
        assert scenario.find_workers(listed_instance) == [f"s{number}"]


def test_new_listed_instance_is_assigned_to_the_least_loaded_listing_worker() -> None:
    scenario = StaticScenario(connectors={"c1": 0})
    scenario.join("w2", "c1 c2 c2-0")
    scenario.settle()
    scenario.join("w1", "c1 c2 c2-0")
    scenario.check_stable()
    assert scenario.find_workers("c1") == ["w2"], "no needless reassignment"
    scenario.connectors["c2"] = 1
    scenario.rebalance()
    assert scenario.assigned() == {"w1": {"c2", "c2-0"}}, (
        "c2 goes to the idle w1; c2-0 goes to w1 by ID, because both run one instance"
    )
    scenario.connectors["c3"] = 0
    scenario.lists = {name: listed | parse_instances("c3") for name, listed in scenario.lists.items()}
    scenario.rebalance()
    assert scenario.assigned() == {"w2": {"c3"}}, "w2 runs one instance, and w1 runs two"


def test_another_listing_worker_takes_over_immediately() -> None:
    scenario = StaticScenario(connectors={"c1": 1})
    scenario.join("w1", "c1 c1-0")
    scenario.settle()
    scenario.join("w2", "c1")
    scenario.join("w3")
    scenario.settle()
    scenario.leave("w1")
    scenario.rebalance()
    assert scenario.assigned() == {"w2": {"c1"}}, "c1 is reassigned in the same round"
    assert scenario.last.delay_ms == FIVE_MINUTES_MS, "c1-0 waits because no worker lists it any more"
    assert scenario.find_workers("c1-0") == []
    scenario.rebalance(after_ms=FIVE_MINUTES_MS)
    assert scenario.find_workers("c1-0") == ["w3"]


def test_returning_static_worker_receives_its_instances_immediately() -> None:
    scenario = create_example()
    scenario.leave("w1")
    scenario.rebalance()
    scenario.join("w1 again", "c1 c1-0")
    scenario.rebalance(after_ms=1_000)
    assert (scenario.assigned(), scenario.revoked()) == ({"w1 again": {"c1", "c1-0"}}, {})
    assert scenario.last.delay_ms == 0
    scenario.check_stable()


def test_static_worker_returning_unnoticed_receives_its_instances_immediately() -> None:
    scenario = create_example()
    scenario.leave("w1")
    scenario.join("w1 again", "c1 c1-0")
    scenario.rebalance()
    assert (scenario.assigned(), scenario.last.delay_ms) == ({"w1 again": {"c1", "c1-0"}}, 0)


def test_first_wildcard_worker_receives_unlisted_instances_without_delay() -> None:
    scenario = StaticScenario(connectors={"c1": 2})
    scenario.join("w1", "c1")
    scenario.join("w2", "c1-0")
    scenario.settle()
    assert (scenario.list_instances("w1"), scenario.list_instances("w2")) == ({"c1"}, {"c1-0"})
    scenario.check_stable()
    scenario.join("w3")
    scenario.rebalance()
    assert (scenario.assigned(), scenario.last.delay_ms) == ({"w3": {"c1-1"}}, 0)


def test_new_wildcard_worker_replaces_the_last_wildcard_worker() -> None:
    scenario = StaticScenario(connectors={"c1": 2})
    scenario.join("w1", "c1")
    scenario.join("w2")
    scenario.settle()
    scenario.leave("w2")
    scenario.rebalance()
    assert (scenario.assigned(), scenario.revoked(), scenario.last.delay_ms) == ({}, {}, 0), "no delay starts"
    scenario.join("w3")
    scenario.rebalance()
    assert (scenario.assigned(), scenario.last.delay_ms) == ({"w3": {"c1-0", "c1-1"}}, 0)


def test_departure_of_the_last_wildcard_worker_ends_the_delay() -> None:
    scenario = StaticScenario(connectors={"c1": 4})
    scenario.join("w1", "c1")
    scenario.join("w2")
    scenario.join("w3")
    scenario.settle()
    scenario.leave("w3")
    scenario.rebalance()
    assert scenario.last.delay_ms == FIVE_MINUTES_MS
    scenario.leave("w2")
    scenario.rebalance()
    assert scenario.last.delay_ms == 0
    scenario.join("w4")
    scenario.rebalance()
    assert scenario.assigned() == {"w4": {"c1-0", "c1-1", "c1-2", "c1-3"}}


def test_unassignable_instance_is_not_lost_when_a_static_worker_leaves() -> None:
    scenario = StaticScenario(connectors={"c1": 2})
    scenario.join("w1", "c1-1")
    scenario.join("w2", "c1")
    scenario.settle()
    scenario.join("w3")
    scenario.settle()
    scenario.leave("w3")
    scenario.rebalance()
    scenario.leave("w1")
    scenario.join("w4")
    scenario.rebalance()
    assert scenario.assigned() == {"w4": {"c1-0"}}, "no worker ran c1-0; c1-1 waits for w1"
    assert scenario.last.delay_ms == FIVE_MINUTES_MS


def test_static_worker_is_excluded_from_wildcard_balancing() -> None:
    scenario = StaticScenario(connectors={"c1": 4, "c2": 4})
    for name in ("w1", "w2"):
        scenario.join(name)
    scenario.settle()
    scenario.join("w3", "c9")
    scenario.check_stable()
    instances_of_w2 = scenario.leave("w2")
    scenario.rebalance()
    assert scenario.last.delay_ms == FIVE_MINUTES_MS
    assert scenario.state.pause.candidates == (), "w3 runs no instances and is not a candidate"
    scenario.rebalance(after_ms=FIVE_MINUTES_MS)
    assert {*instances_of_w2} <= {*scenario.workers["w1"]}
    assert scenario.workers["w3"] == []


def test_idle_wildcard_worker_receives_all_lost_work() -> None:
    scenario = StaticScenario(connectors={"c1": 4, "c2": 4, "c3": 4})
    for name in ("w1", "w2", "w3"):
        scenario.join(name)
    scenario.join("w4", "c3")
    scenario.settle()
    instances_of_w2 = scenario.leave("w2")
    scenario.rebalance()
    scenario.join("w2 again")
    scenario.join("w5", "c9")
    scenario.rebalance(after_ms=1_000)
    assert scenario.state.pause.candidates == ("w2 again",)
    scenario.rebalance(after_ms=FIVE_MINUTES_MS)
    assert {*instances_of_w2} == {*scenario.workers["w2 again"]}


def test_undelivered_wildcard_work_is_not_delayed_by_a_leaving_static_worker() -> None:
    scenario = StaticScenario(connectors={"c1": 0})
    scenario.join("w1", "c1")
    scenario.join("w2")
    scenario.settle()
    scenario.connectors["c2"] = 0
    scenario.rebalance(unreached=["w2"])
    scenario.leave("w1")
    scenario.join("w3", "c1")
    scenario.rebalance()
    assert scenario.assigned() == {"w2": {"c2"}, "w3": {"c1"}}
    assert scenario.last.delay_ms == 0


def test_worker_that_became_static_is_not_expected_as_wildcard_worker() -> None:
    scenario = StaticScenario(connectors={"c1": 0}, assign=assign_incrementally)
    scenario.join("w1")
    scenario.join("w2")
    scenario.settle()
    scenario.connectors["c2"] = 0
    scenario.rebalance(unreached=["w2"])
    scenario.assign = assign_statically
    scenario.lists["w1"] = parse_instances("c1")
    scenario.rebalance()
    assert (scenario.assigned(), scenario.last.delay_ms) == ({"w2": {"c2"}}, 0)


def test_duplicate_work_is_revoked_also_from_listing_workers() -> None:
    scenario = StaticScenario(connectors={"c1": 1})
    scenario.join("w1", "c1", running=parse_instances("c1"))
    scenario.join("w2", "c1", running=parse_instances("c1"))
    scenario.join("w3", running=parse_instances("c1-0"))
    scenario.rebalance()
    assert scenario.revoked() == {"w1": {"c1"}, "w2": {"c1"}}
    assert not scenario.assigned()
    scenario.rebalance()
    assert scenario.assigned() == {"w1": {"c1"}}


def test_deleted_work_is_revoked_from_every_worker() -> None:
    scenario = create_example()
    scenario.connectors = {"c2": 2}
    owner = scenario.find_workers("c1-1")[0]
    scenario.rebalance()
    revoked_instances = scenario.revoked()
    assert revoked_instances["w1"] == {"c1", "c1-0"}
    assert "c1-1" in revoked_instances[owner]


def test_lists_are_ignored_after_a_downgrade_until_the_upgrade() -> None:
    """KIP-987: static assignments may be left in place during a temporary downgrade."""
    scenario = StaticScenario(connectors={"c1": 3})
    scenario.join("w1", "c1")
    scenario.join("w2", "c1-0")
    scenario.settle()
    scenario.assign = assign_incrementally
    scenario.settle()
    assert scenario.running() == dict.fromkeys(scenario.configured, 1)
    assert sorted_instance_counts(scenario, "w1", "w2") == ([0, 1], [1, 2])
    scenario.assign = assign_statically
    scenario.settle()
    assert (scenario.list_instances("w1"), scenario.list_instances("w2")) == ({"c1"}, {"c1-0"})
