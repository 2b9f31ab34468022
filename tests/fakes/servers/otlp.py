"""A collector of OpenTelemetry traces, for OTLP over HTTP at `/v1/traces`."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from typing_extensions import override

if TYPE_CHECKING:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(ThreadingHTTPServer):
    """A server that records the received spans. Thread-safe."""

    daemon_threads = True

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        """Resource attributes of each request."""
        super().__init__(("127.0.0.1", 0), _Receiver)

    @property
    def endpoint(self) -> str:
        """Value of `OTEL_EXPORTER_OTLP_ENDPOINT`."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add_spans(self, request: ExportTraceServiceRequest) -> None:
        """Record the spans of a request."""
        for resource_spans in request.resource_spans:
            self.resources.append(
                {
                    attribute.key: attribute.value.string_value
                    for attribute in resource_spans.resource.attributes
                }
            )
            self.spans += [span for scope in resource_spans.scope_spans for span in scope.spans]


class _Receiver(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path != "/v1/traces":
            self.send_error(404)
            return
        self.server.add_spans(ExportTraceServiceRequest.FromString(body))
        response = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(response)))
        self.end_headers()
        self.wfile.write(response)

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Suppress logging."""


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector on loopback."""
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, name="collector", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
