"""Rendering of the Helm chart with helm, and simulation of its pods on this machine."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import yaml

from scripts.harness.processes import ScriptFailed
from tests.tools.helm.helm import run_helm

ROOT: Final = Path(__file__).parents[3]
CHART: Final = ROOT / "deploy" / "chart" / "kraal"
VALUES_FILES: Final = sorted((ROOT / "deploy" / "chart" / "values").glob("*.yaml"))
RELEASE: Final = "r"
NAMESPACE: Final = "data"
INIT_TIMEOUT_S: Final = 10.0

KUBERNETES_VERSIONS: Final = ("1.29", "1.37")
"""The oldest Kubernetes version that the chart supports, and the newest version with available schemas."""
_CUSTOM_KINDS: Final = {"PodMonitor", "PrometheusRule"}
"""Kinds of the Prometheus operator, for which Kubernetes has no schema."""

Object = Mapping[str, Any]
"""A Kubernetes object or a part of one."""


@dataclass(frozen=True)
class RenderedChart:
    """The rendered objects of a release."""

    objects: Sequence[Object]

    def one(self, kind: str, suffix: str = "") -> Object:
        """Return the only object of a kind whose name has the suffix."""
        [match] = [
            manifest
            for manifest in self.objects_of_kind(kind)
            if manifest["metadata"]["name"].endswith(suffix)
        ]
        return match

    def objects_of_kind(self, kind: str) -> list[Object]:
        """Return all objects of a kind."""
        return [manifest for manifest in self.objects if manifest["kind"] == kind]

    def validate(self, version: str = KUBERNETES_VERSIONS[-1]) -> None:
        """Validate all objects against the Kubernetes schemas. Raises ValidationError."""
        for manifest in self.objects:
            if manifest["kind"] not in _CUSTOM_KINDS:
                kubernetes_validate.validate(manifest, version, strict=True)

    @property
    def pods(self) -> list[Object]:
        """Specs of all pods."""
        return [
            manifest["spec"]["template"]["spec"]
            for manifest in [*self.objects_of_kind("StatefulSet"), *self.objects_of_kind("Job")]
        ]

    @property
    def worker(self) -> Object:
        """Container of a worker."""
        container: Object = self.one("StatefulSet")["spec"]["template"]["spec"]["containers"][0]
        return container

    @property
    def files(self) -> Mapping[str, str]:
        """Contents of the files that the chart creates for workers, by file name."""
        data: Mapping[str, str] = self.one("ConfigMap", self.one("StatefulSet")["metadata"]["name"])["data"]
        return data


def render(
    values: Path | Mapping[str, object], *arguments: str, kubernetes: str = KUBERNETES_VERSIONS[-1]
) -> RenderedChart:
    """Render the chart with a values file, or with values and a default for `bootstrapServers`. Raises ScriptFailed."""
    text = "" if isinstance(values, Path) else yaml.safe_dump({"bootstrapServers": "kafka:9092", **values})
    file = str(values) if isinstance(values, Path) else "/dev/stdin"
    # helm assumes a very old Kubernetes version if it was built without its Makefile.
    settings = [f"--namespace={NAMESPACE}", f"--kube-version={kubernetes}.0", f"--values={file}"]
    result = run_helm("template", RELEASE, str(CHART), *settings, *arguments, text=text)
    if result.returncode:
        raise ScriptFailed(result.stderr)
    return RenderedChart([manifest for manifest in yaml.safe_load_all(result.stdout) if manifest])


def containers(pod: Object) -> Iterator[Object]:
    """Yield the containers of a pod, including init containers."""
    yield from pod.get("initContainers", ())
    yield from pod["containers"]


@dataclass(frozen=True)
class Pod:
    """A pod of a rendered release, simulated in a directory that contains its `/etc/kraal`."""

    chart: RenderedChart
    number: int
    directory: Path

    @property
    def name(self) -> str:
        """Name of the pod, as assigned by its StatefulSet."""
        return f"{self.chart.one('StatefulSet')['metadata']['name']}-{self.number}"

    def write(self, path: str, text: str) -> None:
        """Write a file of a volume, such as a Secret, to `path` in the pod."""
        self.local_path(path).write_text(text, encoding="utf-8")

    def local_path(self, path: str) -> Path:
        """Create the directory of a file in the pod, and return the local path of the file."""
        file = Path(self.localize(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def localize(self, text: str) -> str:
        """Replace the pod's paths in a text with local paths."""
        return re.sub(r"(?<![\w.])/(etc|var/lib)/kraal", rf"{self.directory}/\1/kraal", text)

    def start(self) -> Path:
        """Run the command of the first init container, and return the worker's properties file."""
        for name, text in self.chart.files.items():
            self.write(f"/etc/kraal/chart/{name}", self.localize(text))
        Path(self.localize("/etc/kraal/worker")).mkdir(parents=True, exist_ok=True)
        Path(self.localize("/etc/kraal/secrets")).mkdir(exist_ok=True)
        init_container = self.chart.one("StatefulSet")["spec"]["template"]["spec"]["initContainers"][0]
        variables = {variable["name"]: variable.get("value", self.name) for variable in init_container["env"]}
        subprocess.run(
            [self.localize(argument) for argument in init_container["command"]],
            env={"PATH": os.environ["PATH"], **variables}, check=True, capture_output=True, text=True,
            timeout=INIT_TIMEOUT_S,
        )  # fmt: skip
        return Path(self.localize(self.chart.worker["args"][1]))
