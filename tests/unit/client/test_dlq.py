"""Tests for `kraal dlq ls`, `show` and `replay` with an in-memory Kafka: output, written records, committed offsets."""

from __future__ import annotations

import json

import pytest

from kraal.cli.main import CLIENT_COMMANDS
from kraal.dead_letters import kafka
from kraal.dead_letters.records import DeadLetter, format_text, to_json_object
from kraal.dead_letters.targets import CannotReplay, Targets
from kraal.testing._simulation.plugins import FAKE_SINK, FAKE_SOURCE
from tests.fakes.kafka.dead_letters import MemoryKafka, letter
from tests.fakes.workers.connect import Connect
from tests.unit.client.conftest import Files, Kraal

CONFIG = {"connector.class": FAKE_SINK, "topics": "orders", "errors.deadletterqueue.topic.name": "dead"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    memory_kafka = MemoryKafka()
    monkeypatch.setattr(kafka, "Kafka", memory_kafka)
    monkeypatch.setenv("KRAAL_BOOTSTRAP_SERVERS", "k:9092")
    return memory_kafka


@pytest.fixture
def sink_name(worker: Connect, cluster: MemoryKafka) -> str:
    """Return the name of a sink with three dead letters, whose topic also has one letter of another connector."""
    worker.create("orders-sink", {"name": "orders-sink", **CONFIG})
    cluster.letters["dead"] = [letter(0), letter(1, connector="other"), letter(2), letter(3)]
    return "orders-sink"


def written_values(cluster: MemoryKafka) -> list[bytes | None]:
    return [dead_letter.value for dead_letter, _ in cluster.written]


def test_ls_counts_letters_by_connector(
    kraal: Kraal, worker: Connect, cluster: MemoryKafka, sink_name: str
) -> None:
    worker.create("later", {"name": "later", **CONFIG, "errors.deadletterqueue.topic.name": "none-yet"})
    worker.create("plain", {"name": "plain", "connector.class": FAKE_SOURCE})
    kraal.out("dlq", "replay", sink_name, "--limit", "1")
    assert kraal.out("dlq", "ls").splitlines() == [
        "CONNECTOR     TOPIC      LETTERS   LEFT TO REPLAY",
        "later         none-yet   -         -",
        "orders-sink   dead       4         3",
    ]
    assert json.loads(kraal.out("dlq", "ls", "-o", "json"))[0] == {
        "connector": "later", "topic": "none-yet", "letters": None, "left_to_replay": None
    }  # fmt: skip
    assert cluster.settings == {"bootstrap.servers": "k:9092"}


def test_show_prints_origin_and_cause(kraal: Kraal, sink_name: str) -> None:
    assert kraal.out("dlq", "show", sink_name, "--limit", "1", "--stack").splitlines() == [
        "dead-0@3   2023-11-14 22:13:20.003+00:00",
        "  from        orders-1@103",
        "  connector   orders-sink, task 0",
        "  failed at   VALUE_CONVERTER of JsonConverter",
        "  because     DataException: no JSON",
        "  key         k3",
        "  value       bad 3",
        r"  header      own = \x01",
        "    DataException",
        "      at x",
    ]


def test_show_selects_letters_by_position_and_limit(kraal: Kraal, sink_name: str) -> None:
    def list_offsets(*arguments: str) -> list[int]:
        lines = kraal.out("dlq", "show", *arguments, "--json").splitlines()
        return [json.loads(line)["offset"] for line in lines]

    assert list_offsets(sink_name) == [0, 2, 3], "letters of the connector"
    assert list_offsets(sink_name, "--limit", "2") == [2, 3], "latest letters"
    assert list_offsets(sink_name, "--limit", "3") == [0, 2, 3], (
        "latest letters, without those of another connector"
    )
    assert list_offsets("dead") == list_offsets("dead", "--topic") == [0, 1, 2, 3], "letters of the topic"
    assert list_offsets("dead", "--partition", "0", "--offset", "1", "--limit", "2") == [1, 2], (
        "letters from a position"
    )


def test_json_output_of_a_letter_is_complete(kraal: Kraal, sink_name: str) -> None:
    output = json.loads(kraal.out("dlq", "show", sink_name, "--limit", "1", "--json"))
    assert output == {
        "topic": "dead", "partition": 0, "offset": 3, "timestamp": 1700000000003, "key": "k3", "value": "bad 3",
        "headers": [{"key": "own", "value": "\x01"}],
        "error": {
            "topic": "orders", "partition": 1, "offset": 103, "connector": "orders-sink", "task": 0,
            "stage": "VALUE_CONVERTER", "class": "JsonConverter", "exception": "DataException",
            "message": "no\nJSON", "stacktrace": "DataException\n\tat x",
        },
    }  # fmt: skip


def test_show_reports_the_root_cause() -> None:
    stack = "DataException: no\n\tat x\nCaused by: A: outer\n\tat y\nCaused by: B: end of input\n\tat z"
    lines = list(format_text(letter(0, {"exception.stacktrace": stack}), stack=False))
    assert [line for line in lines if "caused by" in line] == ["  caused by   B: end of input"]


def test_binary_values_are_base64_and_missing_headers_are_marked() -> None:
    letter_without_context = DeadLetter(
        topic="d", partition=0, offset=0, timestamp_ms=None, key=None, value=b"\xff", headers=[("h", None)]
    )
    assert to_json_object(letter_without_context) == {
        "topic": "d", "partition": 0, "offset": 0, "timestamp": None, "key": None, "value_base64": "/w==",
        "headers": [{"key": "h", "value": None}], "error": None,
    }  # fmt: skip


def test_replay_writes_letters_once_to_their_original_partition(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str
) -> None:
    assert kraal.out("dlq", "replay", sink_name) == "3 dead letters from dead written to orders\n"
    assert written_values(cluster) == [b"bad 0", b"bad 2", b"bad 3"]
    assert {str(target) for _, target in cluster.written} == {"orders-1"}
    assert cluster.written[0][0].original_headers == [("own", b"\x01")]
    assert cluster.groups == {"kraal-dlq-replay/dead/orders-sink": {0: 4}}
    assert kraal.error("dlq", "replay", sink_name, code=0) == "Nothing to replay in dead."
    cluster.letters["dead"].append(letter(4))
    kraal.out("dlq", "replay", sink_name)
    assert written_values(cluster)[3:] == [b"bad 4"]
    kraal.out("dlq", "replay", sink_name, "--from-beginning")
    assert len(cluster.written) == 8


def test_replay_resumes_after_a_limited_replay(kraal: Kraal, cluster: MemoryKafka, sink_name: str) -> None:
    kraal.out("dlq", "replay", sink_name, "--limit", "2")
    assert cluster.groups == {"kraal-dlq-replay/dead/orders-sink": {0: 3}}
    kraal.out("dlq", "replay", sink_name, "--limit", "2")
    assert written_values(cluster) == [b"bad 0", b"bad 2", b"bad 3"]


def test_letter_at_a_position_can_be_replayed_repeatedly(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str
) -> None:
    for _ in range(2):
        kraal.out("dlq", "replay", sink_name, "--partition", "0", "--offset", "2")
    assert (written_values(cluster), cluster.groups) == ([b"bad 2"] * 2, {})


def test_dry_run_prints_targets_and_writes_no_records(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str
) -> None:
    assert kraal.out("dlq", "replay", sink_name, "--dry-run").splitlines() == [
        "dead-0@0 -> orders-1",
        "dead-0@2 -> orders-1",
        "dead-0@3 -> orders-1",
        "3 dead letters from dead would be written to orders",
    ]
    assert (cluster.written, cluster.groups) == ([], {})


def test_replay_to_another_topic_partitions_by_key(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str
) -> None:
    cluster.partitions["retry"] = 3
    assert (
        kraal.out("dlq", "replay", sink_name, "--to", "retry", "--limit", "1")
        == "1 dead letter from dead written to retry\n"
    )
    assert str(cluster.written[0][1]) == "retry"


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        pytest.param({"partition": "7"}, "orders", id="missing partition"),
        pytest.param({"partition": None}, "orders", id="null partition, as in sources"),
        pytest.param({"partition": "x"}, "orders", id="partition is not a number"),
        pytest.param({"partition": "0"}, "orders-0", id="existing partition"),
    ],
)
def test_letter_without_an_existing_partition_is_partitioned_by_key(
    context: dict[str, str | None], expected: str
) -> None:
    assert str(Targets().find_target(letter(0, context), {"orders": 2})) == expected


def test_forged_topic_is_rejected_unless_allowed(kraal: Kraal, cluster: MemoryKafka, sink_name: str) -> None:
    cluster.partitions["secrets"] = 1
    cluster.letters["dead"] = [letter(0, {"topic": "secrets"})]
    assert "specify --allow-topic secrets" in kraal.error("dlq", "replay", sink_name)
    assert "specify --allow-topic secrets" in kraal.error("dlq", "replay", "dead", "--topic")
    assert cluster.written == []
    kraal.out("dlq", "replay", sink_name, "--allow-topic", "secrets")
    kraal.out("dlq", "replay", "dead", "--topic", "--allow-topic", "secrets")
    assert [target.topic for _, target in cluster.written] == ["secrets", "secrets"]


def test_offsets_of_unwritten_letters_are_not_committed(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str
) -> None:
    cluster.refuses = True
    assert (
        kraal.error("dlq", "replay", sink_name)
        == "Error: Kafka at nowhere failed to write all letters: it is full"
    )
    assert cluster.groups == {}


@pytest.mark.parametrize(
    ("dead_letter", "to", "message"),
    [
        (
            letter(0, connector=None),
            None,
            (
                "The original topic of dead-0@0 is unknown because it has no header __connect.errors.topic"
                " (errors.deadletterqueue.context.headers.enable was false); specify --to TOPIC"
            ),
        ),
        (letter(0, {"topic": "gone"}), None, "The original topic gone of dead-0@0 does not exist"),
        (letter(0), "gone", "The topic gone does not exist"),
        (
            letter(0),
            "dead",
            "dead-0@0 would be replayed into the dead letter queue topic itself; specify --to TOPIC",
        ),
    ],
)
def test_letter_without_a_valid_target_is_rejected(
    dead_letter: DeadLetter, to: str | None, message: str
) -> None:
    with pytest.raises(CannotReplay) as raised:
        Targets(to).find_target(dead_letter, {"orders": 2, "dead": 1})
    assert str(raised.value) == message


def test_missing_topics_and_failed_replays_exit_with_1(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str
) -> None:
    assert kraal.error("dlq", "replay", sink_name, "--to", "gone") == "Error: The topic gone does not exist"
    message = kraal.error("dlq", "replay", sink_name, "--partition", "0", "--offset", "5")
    assert message == "Error: dead-0 has no offset 5; available: 0 to 3."
    message = kraal.error("dlq", "show", sink_name, "--partition", "2", "--offset", "5")
    assert message == "Error: Topic dead has no partition 2; it has 1 partitions."
    assert cluster.written == []


def test_unknown_name_is_a_one_line_error(kraal: Kraal, worker: Connect, cluster: MemoryKafka) -> None:
    assert cluster.letters == {}
    assert kraal.error("dlq", "show", "nobody") == "Error: Connector or topic nobody does not exist."
    assert kraal.error("dlq", "show", "nobody", "--topic") == "Error: Topic nobody does not exist."
    worker.create("plain", {"name": "plain", "connector.class": FAKE_SOURCE})
    assert "has no dead letter queue topic; its config does not set errors.deadletter" in kraal.error(
        "dlq", "show", "plain"
    )
    worker.create("new", {"name": "new", **CONFIG, "errors.deadletterqueue.topic.name": "none-yet"})
    assert "none-yet of connector new does not exist yet" in kraal.error("dlq", "show", "new")
    assert kraal.error("dlq", "show", "orders", "--topic", code=0) == "No dead letters."
    kraal.env["KRAAL_URL"] = "http://127.0.0.1:1"
    assert "Cannot connect to" in kraal.error("dlq", "show", "orders")


def test_invalid_usage_exits_with_2(kraal: Kraal, cluster: MemoryKafka) -> None:
    assert kraal("dlq", "show", "dead", "--partition", "0").exit_code == 2
    position_options = ("--partition", "0", "--offset", "0")
    assert kraal("dlq", "replay", "dead", *position_options, "--from-beginning").exit_code == 2
    assert kraal("dlq", "show", "dead", "--limit", "0").exit_code == 2
    assert kraal("dlq", "show").exit_code == 2
    assert (cluster.written, kraal.connect.requests()) == ([], [])


def test_bootstrap_servers_are_required_as_option_or_in_the_file(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str, write: Files
) -> None:
    kraal.env["KRAAL_BOOTSTRAP_SERVERS"] = None
    file_without_servers = write("none.properties", "security.protocol=SSL\n")
    assert (
        "Specify --bootstrap-servers"
        in kraal("dlq", "show", sink_name, "--command-config", file_without_servers).stderr
    )
    path = write("client.properties", "bootstrap.servers=here:1\nsecurity.protocol=SSL\n")
    kraal.out("dlq", "show", sink_name, "--command-config", path)
    assert cluster.settings == {"bootstrap.servers": "here:1", "security.protocol": "SSL"}
    kraal.out("dlq", "show", sink_name, "--command-config", path, "--bootstrap-servers", "there:2")
    assert cluster.settings["bootstrap.servers"] == "there:2"


def test_invalid_command_config_is_a_one_line_error(kraal: Kraal, write: Files) -> None:
    path = write("client.properties", "bootstrap.servers=here:1\nsecurity.protocol=NONE\n")
    assert "NONE" in kraal.error("dlq", "show", "x", "--topic", "--command-config", path)
    assert "there is no such file" in kraal.error("dlq", "show", "x", "--command-config", f"{path}.no")


def test_unreachable_kafka_is_a_one_line_error(kraal: Kraal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "REQUEST_TIMEOUT_S", 0.2)
    message = kraal.error("dlq", "show", "x", "--topic", "--bootstrap-servers", "127.0.0.1:1")
    assert message.startswith("Error: Kafka at 127.0.0.1:1 failed to list topics: ")


def test_dlq_command_has_its_listed_name() -> None:
    assert CLIENT_COMMANDS["dlq"].load().name == "dlq"


def test_show_supports_json_and_yaml_output(kraal: Kraal, sink_name: str) -> None:
    lines = kraal.out("dlq", "show", sink_name, "--json").splitlines()
    assert json.loads(kraal.out("dlq", "show", sink_name, "-o", "json")) == list(map(json.loads, lines))
    assert kraal.out("dlq", "show", sink_name, "--limit", "1", "-o", "yaml").startswith("- topic: dead\n")
    assert kraal("dlq", "show", sink_name, "--json", "-o", "json").exit_code == 2


def test_json_output_of_replay_contains_counts_and_targets(
    kraal: Kraal, cluster: MemoryKafka, sink_name: str
) -> None:
    assert json.loads(kraal.out("dlq", "replay", sink_name, "--dry-run", "--limit", "1", "-o", "json")) == {
        "topic": "dead",
        "written": {"orders": 1},
        "dry_run": True,
        "targets": [{"from": "dead-0@0", "to": "orders-1"}],
    }
    assert cluster.written == []
    result = {"topic": "dead", "written": {"orders": 3}, "dry_run": False}
    assert json.loads(kraal.out("dlq", "replay", sink_name, "-o", "json")) == result
    assert json.loads(kraal.out("dlq", "replay", sink_name, "-o", "json")) == {**result, "written": {}}
