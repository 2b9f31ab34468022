from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typing_extensions import override

from kraal.broker.broker import free_port
from scripts.chaos_run.clients import Call, Clients, make_call
from scripts.chaos_run.members import Members
from scripts.chaos_run.pipes import SIDES, Feeder, Pipe
from scripts.chaos_run.schedule import Request
from scripts.chaos_run.timeline import Timeline

PIPES = [Pipe(f"pipe-{n}", Path(f"{n}.in"), Path(f"{n}.out")) for n in range(2)]
PICKS = [n / 50 for n in range(50)]
ERROR_BODY = {"error_code": 409, "message": "momentarily"}


def list_calls(request: Request) -> list[Call]:
    return [make_call(request, pick, PIPES, Path()) for pick in PICKS]


@pytest.mark.parametrize(
    ("request_", "method", "path_suffix"),
    [
        (Request.RESTART, "POST", "/restart"),
        (Request.RESTART_ALL, "POST", "/restart?includeTasks=true"),
        (Request.RESTART_TASK, "POST", "/tasks/0/restart"),
        (Request.PAUSE, "PUT", "/pause"),
        (Request.RESUME, "PUT", "/resume"),
        (Request.STATUS, "GET", "/status"),
        (Request.OFFSETS, "GET", "/offsets"),
    ],
)
def test_requests_select_any_connector(request_: Request, method: str, path_suffix: str) -> None:
    requests = list_calls(request_)
    names = {f"pipe-{n}-{kind}" for n in range(2) for kind in ("source", "sink")}
    assert {call.path for call in requests} == {
        f"/connectors/{name}{path_suffix}" for name in {*names, *(f"side-{n}" for n in range(SIDES))}
    }
    assert {(call.method, call.body) for call in requests} == {(method, None)}


def test_only_side_connectors_are_created_and_deleted() -> None:
    for request in (Request.CREATE_SIDE, Request.DELETE_SIDE, Request.CONFIGURE_SIDE):
        assert all("pipe" not in call.path for call in list_calls(request))
    bodies = [call.body or {} for call in list_calls(Request.CREATE_SIDE)]
    assert {body["name"] for body in bodies} == {f"side-{n}" for n in range(SIDES)}
    assert {body["config"]["connector.class"] for body in bodies} == {"FileStreamSource", "FileStreamSink"}


def test_reconfigured_pipe_keeps_its_files_and_topic() -> None:
    configs = {name: config for pipe in PIPES for name, config in pipe.configs.items()}
    for call in list_calls(Request.CONFIGURE_PIPE):
        name = call.path.split("/")[2]
        body = call.body or {}
        assert {key: body[key] for key in configs[name] if key != "tasks.max"} == {
            key: value for key, value in configs[name].items() if key != "tasks.max"
        }


class Handler(BaseHTTPRequestHandler):
    """A handler that responds with the status in its path (`/STATUS`)."""

    def do_GET(self) -> None:
        status = int(self.path[1:])
        body = json.dumps(ERROR_BODY).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_request(self, code: object = "-", size: object = "-") -> None:
        del code, size


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    members = Members(tmp_path, 2)
    result = Clients(members, PIPES, tmp_path, Timeline())
    yield result
    result.close()
    for member in members.all:
        member.proxy.close()


def test_every_response_is_counted_and_checked(clients: Clients) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    member, stopped_member = clients._members.all
    member.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        assert clients.ask(member, Call("GET", "/409")) == (409, ERROR_BODY)
        assert clients.ask(member, Call("GET", "/404")) is None, "its error_code differs"
        assert clients.ask(stopped_member, Call("GET", "/409")) is None, "no request is sent"
    finally:
        clients._client.close()
        server.shutdown()
        thread.join()
        server.server_close()
    assert clients.statuses == {409: 1, 404: 1}
    assert clients.unanswered_count == 0
    [malformed_response] = clients.malformed_responses
    assert "GET /404 of worker 0: the error_code 409 is not the status 404" in malformed_response


def test_missing_responses_are_counted(clients: Clients) -> None:
    member = clients._members.all[0]
    member.url = f"http://127.0.0.1:{free_port()}"
    assert clients.ask(member, Call("GET", "/409")) is None
    assert clients.unanswered_count == 1
    assert clients.malformed_responses == []


def test_feeder_appends_the_lines_of_each_pipe_and_detects_standstills(tmp_path: Path) -> None:
    pipes = [
        Pipe(f"pipe-{n}", tmp_path / f"{n}.in", tmp_path / f"{n}.out", lines=lines)
        for n, lines in enumerate((20, 3))
    ]
    feeder = Feeder(pipes)
    feeder.start()
    pause = threading.Event()
    while feeder.count_written(pipes[0]) < 60:
        pause.wait(0.01)
    feeder.stop()
    assert feeder.count_written(pipes[1]) == feeder.count_written(pipes[0]) * 3 // 20
    assert feeder.standstill_s > 0, "no line was delivered"
    for pipe in pipes:
        assert pipe.read_last_number() == -1
        pipe.source_file.rename(pipe.sink_file)
        assert pipe.read_last_number() == feeder.count_written(pipe) - 1
        delivery = pipe.delivery(feeder.count_written(pipe))
        assert (delivery.missing_count, delivery.unknown_count, delivery.duplicate_count) == (0, 0, 0)
