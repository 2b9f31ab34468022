"""The web interface of a worker's Spark, where anybody can list jobs and kill them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import httpx2

from kraal.broker.broker import HOST

TIMEOUT_S: Final = 15.0
"""The first answer of a JVM takes seconds: it loads the interface then."""
LANE: Final = "lane-"
"""The job groups of lanes start so."""
_RUNNING: Final = "RUNNING"


class SparkUi:
    """The interface at one port, which every JVM of the worker uses in turn."""

    def __init__(self, port: int) -> None:
        """Describe it; nothing is asked."""
        self._url = f"http://{HOST}:{port}"

    def lanes(self) -> list[int]:
        """Return the jobs of lanes that run; none if Spark does not answer."""
        try:
            with httpx2.Client(base_url=self._url, timeout=TIMEOUT_S, trust_env=False) as client:
                [application] = client.get("/api/v1/applications").raise_for_status().json()
                jobs = client.get(f"/api/v1/applications/{application['id']}/jobs?status=running")
                return assign_lanes(jobs.raise_for_status().json())
        except (httpx2.HTTPError, ValueError):
            return []

    def kill(self, job: int) -> bool:
        """Kill a job, as the link in the list of jobs does; return whether Spark accepted it."""
        try:
            answer = httpx2.post(
                f"{self._url}/jobs/job/kill/?id={job}",
                timeout=TIMEOUT_S,
                trust_env=False,
                follow_redirects=False,
            )
        except httpx2.HTTPError:
            return False
        return answer.is_success or answer.is_redirect


def assign_lanes(jobs: Sequence[dict[str, Any]]) -> list[int]:
    """Return the numbers of the jobs of lanes that run. Pure."""
    return [
        int(job["jobId"])
        for job in jobs
        if job["status"] == _RUNNING and str(job.get("jobGroup", "")).startswith(LANE)
    ]
