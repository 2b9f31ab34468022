"""A server of S3 and Glue on loopback: moto, in a separate environment whose packages do not affect Kraal's."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx2

from kraal.broker.broker import free_port
from kraal.jars.jars import ensure
from scripts.environments import locked_environment
from scripts.harness.processes import wait_until

LOCK: Final = Path(__file__).parents[2] / "s3-server.lock"
PROGRAM: Final = Path(__file__).parents[2] / "tools" / "s3_server.py"
START_TIMEOUT_S: Final = 120.0
AUTHORIZATION: Final = (
    "AWS4-HMAC-SHA256 Credential=nobody/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"
)
"""A placeholder; the server only checks that requests are signed."""


@dataclass(frozen=True)
class S3Server:
    """A running server, which accepts any credentials."""

    url: str

    @property
    def worker_properties(self) -> dict[str, str]:
        """The worker properties for access to the server, including hadoop-aws and its dependencies."""
        prefix = "spark.hadoop.fs.s3a"
        return {
            "spark.jars": ",".join(map(str, ensure("s3a"))),
            f"{prefix}.endpoint": self.url,
            f"{prefix}.endpoint.region": "us-east-1",
            f"{prefix}.path.style.access": "true",
            f"{prefix}.connection.ssl.enabled": "false",
            f"{prefix}.access.key": "nobody",
            f"{prefix}.secret.key": "nothing",
        }

    def make_bucket(self, bucket: str) -> None:
        """Create a bucket."""
        self._request("PUT", bucket)

    def put(self, bucket: str, name: str, content: bytes) -> None:
        """Put an object."""
        self._request("PUT", f"{bucket}/{quote(name)}", content)

    def names(self, bucket: str, prefix: str) -> list[str]:
        """Return the names of at most 1,000 objects with a prefix, without the prefix."""
        listing = self._request("GET", f"{bucket}?list-type=2&prefix={quote(prefix)}")
        keys = ET.fromstring(listing).iterfind(".//{*}Key")  # noqa: S314 - our own server
        return [(key.text or "").removeprefix(prefix) for key in keys]

    def objects(self, bucket: str, prefix: str) -> Mapping[str, bytes]:
        """Return the contents of the objects with a prefix; the objects must not be removed meanwhile."""
        return {
            name: self._request("GET", f"{bucket}/{quote(prefix + name)}")
            for name in self.names(bucket, prefix)
        }

    def _request(self, method: str, path: str, content: bytes = b"") -> bytes:
        response = httpx2.request(
            method,
            f"{self.url}/{path}",
            content=content,
            headers={"Authorization": AUTHORIZATION},
            timeout=START_TIMEOUT_S,
            trust_env=False,
        )
        return response.raise_for_status().content

    def is_up(self) -> bool:
        """Return whether the server responds."""
        with suppress(httpx2.TransportError):
            return httpx2.get(self.url, trust_env=False).is_success
        return False


@contextmanager
def s3_server(directory: Path) -> Iterator[S3Server]:
    """Run a server with its log in `directory` and its objects in memory."""
    port = free_port()
    with (directory / "s3.log").open("wb") as output:
        process = subprocess.Popen(
            [
                str(locked_environment("s3-server", LOCK)),
                str(PROGRAM),
                "-H",
                "127.0.0.1",
                "-p",
                str(port),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        server = S3Server(f"http://127.0.0.1:{port}")
        wait_until("the S3 server responded", server.is_up, timeout_s=START_TIMEOUT_S)
        yield server
    finally:
        process.kill()
        process.wait()
