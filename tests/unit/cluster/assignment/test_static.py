"""Static assignments (KIP-987): its eight steps, its example, and what docs/static-assignments.md adds.

test_static_group.py tests the leader's input, and tests/unit/config/worker/test_static.py the lists of a worker.
"""

from __future__ import annotations

from kraal.cluster.assignment.incremental import assign_incrementally
from kraal.cluster.assignment.static import assign_statically
from kraal.core.ids import ConnectorName
from kraal.protocol.group import Job
from tests.fakes.cluster.static_story import FIVE_MINUTES_MS, StaticStory, counts, jobs


def example() -> StaticStory:
    """The worked example of the contract: w1 static, w2 and w3 wildcard, in balance."""
    story = StaticStory()
    story.join("w1", "c1 c1-0")
    story.join("w2")
    story.join("w3")
    story.settle()
    return story


def spread(story: StaticStory, *names: str) -> tuple[list[int], list[int]]:
    """Return how many connectors and how many tasks these workers run, sorted."""
    loads = [counts(story.workers[name]) for name in names]
    return sorted(load[0] for load in loads), sorted(load[1] for load in loads)


def test_the_worked_example() -> None:
    story = example()
    assert story.runs("w1") == {"c1", "c1-0"}
    assert spread(story, "w2", "w3") == ([0, 1], [1, 2])
    kept = story.leave("w1")
    story.rebalance()
    assert (story.last.delay_ms, story.assigned(), story.revoked()) == (FIVE_MINUTES_MS, {}, {})
    story.rebalance(after_ms=FIVE_MINUTES_MS)
    assert spread(story, "w2", "w3") == ([1, 1], [2, 2])
    story.join("w1", "c1 c1-0")
    story.rebalance()
    assert set().union(*story.revoked().values()) == {"c1", "c1-0"}
    assert not story.assigned()
    story.rebalance()
    assert story.assigned() == {"w1": {"c1", "c1-0"}}
    assert story.running().keys() >= set(kept)
    story.nothing_happens()


def test_steps_3_to_5_revoke_what_is_not_where_it_may_be() -> None:
    story = StaticStory(connectors={"c1": 2})
    story.join("w1", "c1", running=jobs("c1-0"))  # 5: a wildcard job on a static worker
    story.join("w2", "c1-1", running=jobs("c1"))  # 4: a static job on a static worker that does not list it
    story.join("w3", running=jobs("c1-1"))  # 3: a static job on a wildcard worker
    story.rebalance()
    assert story.revoked() == {"w1": {"c1-0"}, "w2": {"c1"}, "w3": {"c1-1"}}
    assert not story.assigned()
    story.rebalance()
    assert story.assigned() == {"w1": {"c1"}, "w2": {"c1-1"}, "w3": {"c1-0"}}
    story.nothing_happens()


def test_steps_7_and_8_make_room_for_wildcard_jobs_that_are_about_to_come() -> None:
    """All wildcard jobs, assigned or not, must eventually be evenly distributed: those that w1 gives up count."""
    story = StaticStory(connectors={"c1": 4})
    story.join("w1", "c1", running=jobs("c1 c1-0 c1-1"))
    story.join("w2", running=jobs("c1-2 c1-3"))
    story.join("w3")
    story.rebalance()
    assert story.revoked() == {"w1": {"c1-0", "c1-1"}}, "w2 has its share of four already"
    story.rebalance()
    assert story.assigned() == {"w3": {"c1-0", "c1-1"}}


def test_d2_a_connector_and_its_tasks_are_listed_each_for_itself() -> None:
    story = StaticStory(connectors={"c1": 3})
    story.join("w1", "c1")
    story.join("w2")
    story.settle()
    assert (story.runs("w1"), story.runs("w2")) == ({"c1"}, {"c1-0", "c1-1", "c1-2"})


def test_d2_listed_job_is_static_as_soon_as_it_exists() -> None:
    story = StaticStory(connectors={"c1": 1})
    story.join("w1", "c9 c9-0 c1-7")
    story.join("w2")
    story.settle()
    assert (story.runs("w1"), story.runs("w2")) == (set(), {"c1", "c1-0"})
    story.connectors["c9"] = 1
    story.rebalance()
    assert (story.assigned(), story.revoked()) == ({"w1": {"c9", "c9-0"}}, {})


def test_d3_a_connector_called_like_a_task_is_not_that_task() -> None:
    story = StaticStory(connectors={"a": 2, "a-1": 1})
    story.join("w1")
    story.join("w2")
    story.lists["w1"] = frozenset({Job(ConnectorName("a-1"))})
    story.settle()
    assert story.workers["w1"] == [Job(ConnectorName("a-1"))]
    story.lists["w1"] = frozenset({Job(ConnectorName("a"), 1)})
    story.settle()
    assert story.workers["w1"] == [Job(ConnectorName("a"), 1)]


def test_d4_what_is_misplaced_moves_in_two_rounds_also_while_a_delay_is_on() -> None:
    story = example()
    story.leave("w2")
    story.rebalance()
    assert story.last.delay_ms == FIVE_MINUTES_MS
    stays = next(name for name in ("c1-1", "c2", "c2-0", "c2-1") if story.where(name) == ["w3"])
    story.join("w4", stays)
    story.rebalance(after_ms=1_000)
    assert story.revoked() == {"w3": {stays}}
    assert (story.assigned(), story.last.delay_ms) == ({}, FIVE_MINUTES_MS - 1_000)
    story.rebalance()
    assert story.assigned() == {"w4": {stays}}
    assert story.last.delay_ms == FIVE_MINUTES_MS - 1_000, "what was lost waits on"


def test_d4_revocations_of_misplaced_jobs_do_not_make_later_ones_wait() -> None:
    story = StaticStory(connectors={"c1": 4, "c2": 4})
    story.join("w1")
    story.settle()
    for number, listed in enumerate(("c1", "c1-0", "c1-1")):
        story.join(f"s{number}", listed)
        story.rebalance()
        assert story.revoked() == {"w1": {listed}}
        assert (story.last.delay_ms, story.state.rebalancing, story.state.revocations) == (0, False, 0)
        story.rebalance()
        assert story.where(listed) == [f"s{number}"]


def test_d5_a_job_stays_where_it_is_listed_and_a_new_one_goes_where_least_runs() -> None:
    story = StaticStory(connectors={"c1": 0})
    story.join("w2", "c1 c2 c2-0")
    story.settle()
    story.join("w1", "c1 c2 c2-0")
    story.nothing_happens()
    assert story.where("c1") == ["w2"], "no needless move"
    story.connectors["c2"] = 1
    story.rebalance()
    assert story.assigned() == {"w1": {"c2", "c2-0"}}, (
        "w1 ran nothing; then both ran one, and w1 is first by id"
    )
    story.connectors["c3"] = 0
    story.lists = {name: listed | jobs("c3") for name, listed in story.lists.items()}
    story.rebalance()
    assert story.assigned() == {"w2": {"c3"}}, "w2 runs one, w1 two"


def test_d6_another_lister_takes_over_at_once() -> None:
    story = StaticStory(connectors={"c1": 1})
    story.join("w1", "c1 c1-0")
    story.settle()
    story.join("w2", "c1")
    story.join("w3")
    story.settle()
    story.leave("w1")
    story.rebalance()
    assert story.assigned() == {"w2": {"c1"}}, "in the same round"
    assert story.last.delay_ms == FIVE_MINUTES_MS, "c1-0 is listed by nobody now, and waits"
    assert story.where("c1-0") == []
    story.rebalance(after_ms=FIVE_MINUTES_MS)
    assert story.where("c1-0") == ["w3"]


def test_d6_a_static_worker_that_is_back_in_time_gets_its_jobs_at_once() -> None:
    story = example()
    story.leave("w1")
    story.rebalance()
    story.join("w1 again", "c1 c1-0")
    story.rebalance(after_ms=1_000)
    assert (story.assigned(), story.revoked()) == ({"w1 again": {"c1", "c1-0"}}, {})
    assert story.last.delay_ms == 0
    story.nothing_happens()


def test_d6_static_worker_that_returns_unnoticed_gets_its_jobs_immediately() -> None:
    story = example()
    story.leave("w1")
    story.join("w1 again", "c1 c1-0")
    story.rebalance()
    assert (story.assigned(), story.last.delay_ms) == ({"w1 again": {"c1", "c1-0"}}, 0)


def test_d7_without_wildcard_workers_unlisted_jobs_wait_for_the_first_without_delay() -> None:
    story = StaticStory(connectors={"c1": 2})
    story.join("w1", "c1")
    story.join("w2", "c1-0")
    story.settle()
    assert (story.runs("w1"), story.runs("w2")) == ({"c1"}, {"c1-0"})
    story.nothing_happens()
    story.join("w3")
    story.rebalance()
    assert (story.assigned(), story.last.delay_ms) == ({"w3": {"c1-1"}}, 0)


def test_d7_the_last_wildcard_worker_leaves_and_another_comes() -> None:
    story = StaticStory(connectors={"c1": 2})
    story.join("w1", "c1")
    story.join("w2")
    story.settle()
    story.leave("w2")
    story.rebalance()
    assert (story.assigned(), story.revoked(), story.last.delay_ms) == ({}, {}, 0), "nobody is waited for"
    story.join("w3")
    story.rebalance()
    assert (story.assigned(), story.last.delay_ms) == ({"w3": {"c1-0", "c1-1"}}, 0)


def test_d7_no_delay_once_the_last_wildcard_worker_has_left() -> None:
    story = StaticStory(connectors={"c1": 4})
    story.join("w1", "c1")
    story.join("w2")
    story.join("w3")
    story.settle()
    story.leave("w3")
    story.rebalance()
    assert story.last.delay_ms == FIVE_MINUTES_MS
    story.leave("w2")
    story.rebalance()
    assert story.last.delay_ms == 0
    story.join("w4")
    story.rebalance()
    assert story.assigned() == {"w4": {"c1-0", "c1-1", "c1-2", "c1-3"}}


def test_d7_unassignable_job_is_not_lost_when_a_static_worker_leaves() -> None:
    story = StaticStory(connectors={"c1": 2})
    story.join("w1", "c1-1")
    story.join("w2", "c1")
    story.settle()
    story.join("w3")
    story.settle()
    story.leave("w3")
    story.rebalance()
    story.leave("w1")
    story.join("w4")
    story.rebalance()
    assert story.assigned() == {"w4": {"c1-0"}}, "nobody had it; c1-1 waits for w1"
    assert story.last.delay_ms == FIVE_MINUTES_MS


def test_d8_a_static_worker_counts_in_no_average_and_gets_no_lost_work() -> None:
    story = StaticStory(connectors={"c1": 4, "c2": 4})
    for name in ("w1", "w2"):
        story.join(name)
    story.settle()
    story.join("w3", "c9")
    story.nothing_happens()
    lost = story.leave("w2")
    story.rebalance()
    assert story.last.delay_ms == FIVE_MINUTES_MS
    assert story.state.pause.candidates == (), "w3 has nothing to do, and is no candidate"
    story.rebalance(after_ms=FIVE_MINUTES_MS)
    assert {*lost} <= {*story.workers["w1"]}
    assert story.workers["w3"] == []


def test_d9_a_wildcard_worker_that_came_empty_gets_all_that_was_lost() -> None:
    story = StaticStory(connectors={"c1": 4, "c2": 4, "c3": 4})
    for name in ("w1", "w2", "w3"):
        story.join(name)
    story.join("w4", "c3")
    story.settle()
    lost = story.leave("w2")
    story.rebalance()
    story.join("w2 again")
    story.join("w5", "c9")
    story.rebalance(after_ms=1_000)
    assert story.state.pause.candidates == ("w2 again",)
    story.rebalance(after_ms=FIVE_MINUTES_MS)
    assert {*lost} == {*story.workers["w2 again"]}


def test_d9_what_did_not_reach_its_wildcard_worker_is_not_waited_for_though_a_static_one_left() -> None:
    story = StaticStory(connectors={"c1": 0})
    story.join("w1", "c1")
    story.join("w2")
    story.settle()
    story.connectors["c2"] = 0
    story.rebalance(deaf=["w2"])
    story.leave("w1")
    story.join("w3", "c1")
    story.rebalance()
    assert story.assigned() == {"w2": {"c2"}, "w3": {"c1"}}
    assert story.last.delay_ms == 0


def test_d9_a_worker_that_became_static_is_not_missed_among_the_wildcard_workers() -> None:
    story = StaticStory(connectors={"c1": 0}, assign=assign_incrementally)
    story.join("w1")
    story.join("w2")
    story.settle()
    story.connectors["c2"] = 0
    story.rebalance(deaf=["w2"])
    story.assign = assign_statically
    story.lists["w1"] = jobs("c1")
    story.rebalance()
    assert (story.assigned(), story.last.delay_ms) == ({"w2": {"c2"}}, 0)


def test_d10_duplicate_work_is_revoked_everywhere_even_where_listed() -> None:
    story = StaticStory(connectors={"c1": 1})
    story.join("w1", "c1", running=jobs("c1"))
    story.join("w2", "c1", running=jobs("c1"))
    story.join("w3", running=jobs("c1-0"))
    story.rebalance()
    assert story.revoked() == {"w1": {"c1"}, "w2": {"c1"}}
    assert not story.assigned()
    story.rebalance()
    assert story.assigned() == {"w1": {"c1"}}


def test_d10_deleted_work_is_revoked_on_every_worker() -> None:
    story = example()
    story.connectors = {"c2": 2}
    holder = story.where("c1-1")[0]
    story.rebalance()
    revoked = story.revoked()
    assert revoked["w1"] == {"c1", "c1-0"}
    assert "c1-1" in revoked[holder]


def test_after_a_downgrade_everything_is_shared_and_after_the_upgrade_it_is_static_again() -> None:
    """KIP-987: static assignments may be left in place during a temporary downgrade."""
    story = StaticStory(connectors={"c1": 3})
    story.join("w1", "c1")
    story.join("w2", "c1-0")
    story.settle()
    story.assign = assign_incrementally
    story.settle()
    assert story.running() == dict.fromkeys(story.configured, 1)
    assert spread(story, "w1", "w2") == ([0, 1], [1, 2])
    story.assign = assign_statically
    story.settle()
    assert (story.runs("w1"), story.runs("w2")) == ({"c1"}, {"c1-0"})
