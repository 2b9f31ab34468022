"""A client of Spark's web UI, which lists and kills jobs without authentication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import httpx2

from kraal.broker.broker import HOST

TIMEOUT_S: Final = 15.0
"""Timeout of requests. The first response takes seconds, because Spark loads the UI lazily."""
LANE: Final = "lane-"
"""Prefix of the job groups of lanes."""
_RUNNING: Final = "RUNNING"


class SparkUi:
    """The web UI at one port, which successive JVMs of the worker use."""

    def __init__(self, port: int) -> None:
        """Create the client without sending a request."""
        self._url = f"http://{HOST}:{port}"

    def list_lane_jobs(self) -> list[int]:
        """Return the ids of the running jobs of lanes; empty if Spark does not respond."""
        try:
            with httpx2.Client(base_url=self._url, timeout=TIMEOUT_S, trust_env=False) as client:
                [application] = client.get("/api/v1/applications").raise_for_status().json()
                jobs = client.get(f"/api/v1/applications/{application['id']}/jobs?status=running")
                return find_lane_jobs(jobs.raise_for_status().json())
        except (httpx2.HTTPError, ValueError):
            return []

    def kill(self, job: int) -> bool:
        """Kill a job through the UI's kill link; return whether Spark accepted the request."""
        try:
            response = httpx2.post(
                f"{self._url}/jobs/job/kill/?id={job}",
                timeout=TIMEOUT_S,
                trust_env=False,
                follow_redirects=False,
            )
        except httpx2.HTTPError:
            return False
        return response.is_success or response.is_redirect


def find_lane_jobs(jobs: Sequence[dict[str, Any]]) -> list[int]:
    """Return the ids of the running jobs of lanes. Pure."""
    return [
        int(job["jobId"])
        for job in jobs
        if job["status"] == _RUNNING and str(job.get("jobGroup", "")).startswith(LANE)
    ]
