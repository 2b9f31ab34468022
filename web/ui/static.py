"""Static files at `/ui/static/HASH/NAME`. Browsers may cache them for a year: the URL contains a content hash."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from web.ui.options import PREFIX

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from starlette.requests import Request

_TYPES: Final = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
        ".md": "text/plain; charset=utf-8",
    }
)
_CACHE_CONTROL: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A static file, uncompressed and compressed with gzip."""

    content_type: str
    body: bytes
    gzipped: bytes
    hash: str


class StaticFiles:
    """Files of `web/ui/static` by relative path, such as `vendored/htmx.min.js`."""

    def __init__(self) -> None:
        self._files = _load_files()

    @property
    def files(self) -> Mapping[str, StaticFile]:
        """The files by name."""
        return MappingProxyType(self._files)

    def url(self, name: str) -> str:
        """Return the URL of a file. Raises KeyError for an unknown file."""
        return f"{PREFIX}/static/{self._files[name].hash}/{name}"

    async def respond(self, request: Request) -> Response:
        """Handle `GET /static/{hash}/{name}`."""
        file = self._files.get(request.path_params["name"])
        if file is None or file.hash != request.path_params["hash"]:
            return Response("No such file", HTTPStatus.NOT_FOUND, media_type="text/plain")
        headers = {
            "Cache-Control": _CACHE_CONTROL,
            "Vary": "Accept-Encoding",
            "Content-Type": file.content_type,
        }
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(file.gzipped, headers={**headers, "Content-Encoding": "gzip"})
        return Response(file.body, headers=headers)


@cache
def _load_files() -> dict[str, StaticFile]:
    """Read and compress the files once per process."""
    return dict(_read_folder(files("web.ui") / "static", ""))


def _read_folder(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    entries: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            entries += _read_folder(entry, f"{prefix}{entry.name}/")
            continue
        content_type = _TYPES.get("." + entry.name.rpartition(".")[2])
        if content_type is not None:
            body = entry.read_bytes()
            digest = sha256(body).hexdigest()[:8]
            entries.append(
                (prefix + entry.name, StaticFile(content_type, body, gzip.compress(body, mtime=0), digest))
            )
    return entries
