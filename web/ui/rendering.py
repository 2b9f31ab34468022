"""Renders pages from templates. All values are escaped, a missing value is an error, and `url` creates all URLs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from hashlib import blake2b
from types import CodeType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from typing_extensions import override

from kraal.core.printable import printable
from kraal.core.rest_requests import encode_segment
from web.ui.options import PREFIX
from web.ui.views import formats, texts

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

_ESCAPE: Final = "~"
_COMPILE_PAUSE_S: Final = 0.02
"""Pause after precompiling each template; compiling a large template takes about as long."""


class ExactText(str):
    """Text that is rendered unchanged, as the value of an input, but still escaped for HTML."""

    __slots__ = ()


class MultilineText(str):
    """Multi-line text for a `<pre>`, whose line ends and tabs are preserved."""

    __slots__ = ()


def url(*segments: str, **query: str | int | None) -> str:
    """Return the URL of a page under `/ui` from decoded segments, without parameters that are None or empty."""
    path = "".join(f"/{encode_segment(_escape_dots(segment))}" for segment in segments)
    parameters = [(key, str(value)) for key, value in query.items() if value is not None and value != ""]
    return f"{PREFIX}{path or '/'}" + (f"?{urlencode(parameters, errors='replace')}" if parameters else "")


def _escape_dots(name: str) -> str:
    """Escape a name for a path, because browsers remove the segments `.` and `..` even if percent-encoded."""
    return _ESCAPE + name if name in (".", "..") or name.startswith(_ESCAPE) else name


def unescape_segment(text: str) -> str:
    """Return the name in a decoded path segment that was created by `url`."""
    return text.removeprefix(_ESCAPE)


def short_hash(text: str) -> str:
    """Return a short hash of a text, such as a trace, for use in an HTML id."""
    return blake2b(text.encode("utf-8", "replace"), digest_size=6).hexdigest()


def etag(body: bytes) -> str:
    """Return the weak entity tag of a page or fragment."""
    return f'W/"{blake2b(body, digest_size=12).hexdigest()}"'


class _TemplateCache(BytecodeCache):
    """Cache of compiled templates, shared by all dashboards of a process, because tests create many."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    @override
    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    @override
    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._codes[bucket.key, bucket.checksum] = bucket.code


_TEMPLATE_CACHE: Final = _TemplateCache()


class Rendering:
    """Renderer of templates. `static` maps static file names to URLs; `shared` has values for all templates."""

    def __init__(self, static: Callable[[str], str], shared: Mapping[str, Any]) -> None:
        self._environment = Environment(
            loader=PackageLoader("web.ui"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=escape_invisible,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
            bytecode_cache=_TEMPLATE_CACHE,
        )
        self._environment.globals.update({"url": url, "static": static, **shared})
        self._environment.filters.update(
            {"exact": ExactText, "lines": MultilineText}
            | {function.__name__: function for function in _FILTERS}
        )

    async def compile_all(self, *, pause_s: float = _COMPILE_PAUSE_S) -> None:
        """Precompile all templates on other threads, with a pause after each."""
        for name in self._environment.list_templates():
            await asyncio.to_thread(self._environment.get_template, name)
            await asyncio.sleep(pause_s)

    def render(self, template: str, context: Mapping[str, Any]) -> bytes:
        """Render a page or a part of a page in UTF-8. Unpaired surrogates become `?`."""
        return self._environment.get_template(template).render(**context).encode("utf-8", "replace")


_FILTERS: Final[tuple[Callable[..., str], ...]] = (
    formats.utc, formats.iso, formats.number, formats.duration, short_hash, texts.shorten,
)  # fmt: skip


def escape_invisible(value: object) -> object:
    r"""Render an expression of a template: invisible characters appear as `\u202e`, None as an empty string."""
    if isinstance(value, str) and not isinstance(value, ExactText | Markup) and not value.isprintable():
        return printable(value, keep="\n\t" if isinstance(value, MultilineText) else "")
    return "" if value is None else value
