"""Hypothesis strategy for malformed requests: broken JSON, unusual names, headers and framing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from tests.fuzz import inputs
from tests.fuzz.raw import RawRequest
from tests.unit.web.api import document
from web.settings import Settings

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_CONTENT_TYPE: Final = b"Content-Type"
_JSON: Final = (_CONTENT_TYPE, b"application/json")

# -- bodies ------------------------------------------------------------------------------------------------


def _dump_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _truncate(data: bytes, length: int) -> bytes:
    return data[: length % (len(data) + 1)]


def _replace_byte(data: bytes, position: int, byte: int) -> bytes:
    position %= len(data) + 1
    return data[:position] + bytes([byte]) + data[position + 1 :]


_VALID_BODIES = st.one_of(inputs.create_requests, inputs.configs, inputs.offsets, inputs.levels).map(
    _dump_json
)
_UNUSUAL_BODIES: Final = (
    b"",
    b" ",
    b"null",
    b"[]",
    b'""',
    b"\xef\xbb\xbf{}",
    b"{}{}",
    b"{},",
    b"NaN",
    b'{"a":Infinity}',
    b"'a'",
    b'{"a":1,}',
    b"// comment\n{}",
    b'{"a":01}',
    b'{"a":1e999999999}',
    b'{"a":-0.0}',
    b'{"a":"\\ud800"}',
    b'{"\\udfff":"a"}',
    b'{"a":"\\ud83d\\ude00"}',
    b'{"a":"\\u0000"}',
    b'{"a":"\x00"}',
    b'{"a":"\xff\xfe"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"a":"\xc0\x80"}',
    b'{"a":"\xf5\x80\x80\x80"}',
    b'{"name":"one","name":"two","config":{},"config":null}',
    b'{"name":"\\u0000","config":{"connector.class":"FileStreamSource","topic":"t"}}',
    b'{"name":"a\\nb","config":{"connector.class":"FileStreamSource","topic":"t"}}',
    '{"a":"ü"}'.encode("utf-16"),
    '{"a":"ü"}'.encode("utf-32"),
    '{"a":"ü"}'.encode("latin-1"),
)
_SIZES = st.sampled_from((10, 500, 5_000, 100_000))


def _nest(opening: bytes, closing: bytes) -> SearchStrategy[bytes]:
    return st.builds(
        lambda depth, is_closed: opening * depth + closing * (depth * is_closed), _SIZES, st.booleans()
    )


def _repeat(before: bytes, part: bytes, after: bytes, max_bytes: int = 100_000) -> SearchStrategy[bytes]:
    """Return a strategy for texts with a repeated part, which reveal parsers with superlinear time."""
    return _SIZES.map(lambda size: before + part * (min(size, max_bytes) // len(part)) + after)


_SOURCE: Final = b'{"connector.class":"FileStreamSource","topic":"t",'
_SINK: Final = b'{"connector.class":"FileStreamSink",'
_LARGE_BODIES = st.one_of(
    _nest(b"[", b"]"),
    _nest(b'{"a":', b"}"),
    _nest(b'{"config":', b"}"),
    _nest(b'{"offsets":[{"partition":', b"}]}"),
    st.integers(1, 500).map(
        lambda depth: (
            b'{"offsets":[{"partition":{"filename":' + b"[" * depth + b"]" * depth + b'},"offset":null}]}'
        )
    ),
    _repeat(b'{"a":', b"9", b"}"),
    _repeat(b'{"a":1.', b"9", b"}"),
    _repeat(b'{"a":1e', b"9", b"}"),
    _repeat(b'{"offsets":[{"partition":{"filename":', b"9", b'},"offset":{"position":1}}]}'),
    _repeat(b'{"name":"', b"n", b'","config":{"connector.class":"FileStreamSource","topic":"t"}}'),
    _repeat(b'{"connector.class":"', b"c.", b'"}'),
    _repeat(_SOURCE + b'"', b"k.", b'password":"v"}'),
    _repeat(_SOURCE + b'"x.password":"', b"password=", b'"}'),
    _repeat(_SOURCE + b'"topic":"', b"${a:", b'"}'),
    _repeat(_SOURCE + b'"tasks.max":"', b"9", b'"}'),
    _repeat(_SOURCE + b'"connector.plugin.version":"[', b" ", b'"}'),
    _repeat(_SOURCE + b'"connector.plugin.version":"', b"9", b'"}'),
    _repeat(_SOURCE + b'"transforms":"a', b",b", b'"}', 5_000),
    _repeat(_SINK + b'"topics":"', b"a,", b'"}'),
    _repeat(_SINK + b'"topics":"a', b" ", b'b"}'),
    _repeat(_SINK + b'"topics.regex":"', b"(", b'"}'),
    _repeat(
        _SINK + b'"topics.regex":"',
        b"a?",
        b'","errors.deadletterqueue.topic.name":"aaaaaaaaaaaaaaaaaaaaaaaaaa"}',
    ),
    st.integers(1, 3_000).map(lambda count: b"{" + b",".join(b'"k%d":"v"' % n for n in range(count)) + b"}"),
    st.just(b'{"a":"' + b"x" * 1_000_100 + b'"}'),
)
bodies: SearchStrategy[bytes] = st.one_of(
    _VALID_BODIES,
    st.sampled_from(_UNUSUAL_BODIES),
    st.binary(max_size=60),
    st.builds(_truncate, _VALID_BODIES, st.integers(0, 500)),
    st.builds(_replace_byte, _VALID_BODIES, st.integers(0, 500), st.integers(0, 255)),
    _LARGE_BODIES,
)

# -- targets -----------------------------------------------------------------------------------------------

_SEGMENT_BYTES = st.binary(min_size=1, max_size=12).map(
    lambda data: bytes(byte if 0x21 <= byte < 0x7F and byte not in b"?#/" else 0x25 for byte in data)
)
_SEGMENTS = st.one_of(
    st.sampled_from((b"one", b"two", b"a%2Fb", b"with%20space", b"%C3%BC")),
    st.sampled_from((b"one", b"two")),
    st.sampled_from(
        (b"%00", b"%", b"%zz", b"%ff", b"%ed%a0%80", b"%0d%0aX:y", b"..", b".", b"", b"%2e%2e", b";a=b", b"+")
    ),
    st.sampled_from((b"n" * 2_000, b"%41" * 2_000, b"n" * 30_000, b"n." * 10_000)),
    _SEGMENT_BYTES,
)
_NUMBERS = st.one_of(
    st.sampled_from((b"0", b"1", b"-1", b"2147483648", b"9" * 300, b"%30", b"+0", b"00", b"0x0", b"%D9%A3")),
    _SEGMENTS,
)


def _fill_template(template: bytes) -> SearchStrategy[bytes]:
    return st.builds(
        lambda segment, number: template.replace(b"{c}", segment).replace(b"{t}", number), _SEGMENTS, _NUMBERS
    )


def _template(path: str) -> bytes:
    """Return a path of the OpenAPI document with `{t}` for a task number and `{c}` for any other parameter.

    The path of the event stream gets a query with which the stream ends after its first event.
    """
    if path == "/changes":
        return b"/changes?wait_ms=0"
    return re.sub(r"\{(?!task)\w+\}", "{c}", path).replace("{task}", "{t}").encode("ascii")


PATHS: Final[tuple[tuple[bytes, tuple[bytes, ...]], ...]] = (
    *(
        (_template(path), tuple(method.upper().encode("ascii") for method in methods))
        for path, methods in document(Settings(advertised_url="http://worker:8083/"))["paths"].items()
    ),
    (b"/connector-plugins/FileStreamSink/config/validate", (b"PUT",)),
    (b"/{c}", (b"GET",)),
)
_QUERIES = st.one_of(
    st.just(b""),
    st.just(b""),
    st.sampled_from(
        (
            b"?",
            b"?expand=status&expand=info",
            b"?expand=" + b"x" * 5_000,
            b"?includeTasks=true&onlyFailed=true",
            b"?includeTasks=TRUE&includeTasks=false",
            b"?forward=true",
            b"?forward=%00",
            b"?connectorsOnly=%ff",
            b"?scope=cluster",
            b"?scope=%ed%a0%80",
            b"?" + b"&" * 2_000,
            b"?%",
            b"?a=b;c=d#e",
        )
    ),
)
_OTHER_METHODS: Final = (b"HEAD", b"OPTIONS", b"TRACE", b"PROPFIND", b"CONNECT", b"get", b"X")

# -- headers -----------------------------------------------------------------------------------------------

_HEADERS = st.one_of(
    st.sampled_from(
        (
            (_CONTENT_TYPE, b"text/plain"),
            (_CONTENT_TYPE, b"application/json; charset=utf-16"),
            (_CONTENT_TYPE, b"application/json;"),
            (_CONTENT_TYPE, b";;;"),
            (_CONTENT_TYPE, b"\xff\xfe"),
            (_CONTENT_TYPE, b"application/x-www-form-urlencoded"),
            (_CONTENT_TYPE, b"multipart/form-data; boundary="),
            (b"Accept", b"text/html"),
            (b"Accept", b"*/*;q=nan, ,,;"),
            (b"Accept", b"application/" + b"a," * 2_000),
            (b"Accept", b"\xe9"),
            (b"Content-Encoding", b"gzip"),
            (b"Expect", b"100-continue"),
            (b"Expect", b"the unexpected"),
            (b"Upgrade", b"websocket"),
            (b"Upgrade", b"h2c"),
            (b"Origin", b"null"),
            (b"Origin", b"\xff"),
            (b"Access-Control-Request-Method", b"DELETE"),
            (b"Authorization", b"Basic ====="),
            (b"Authorization", b"\xc3\xbc"),
            (b"X-Connect-Authorization", b"not base64"),
            (b"X-Connect-Authorization", b"\xff"),
            (b"X-Connect-Request-Signature-Algorithm", b"HmacSHA256"),
            (b"X-Connect-Request-Signature-Algorithm", b"\x80%s{}"),
            (b"X-Forwarded-For", b"a" * 4_000),
            (b"Cookie", b"a=b; =;;"),
            (b"Range", b"bytes=0-0"),
            (b"If-None-Match", b"*"),
        )
    ),
    st.tuples(st.binary(max_size=8), st.binary(max_size=20)).map(
        lambda pair: (pair[0].replace(b"\n", b""), pair[1].replace(b"\n", b""))
    ),
)
_FRAMINGS: Final = (
    b"Content-Length: 999999\r\n",
    b"Content-Length: 99999999999999999999999999\r\n",
    b"Content-Length: 1\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: x\r\n",
    b"Content-Length: 1_0\r\n",
    b"Content-Length: \xb2\r\n",
    b"Content-Length: 1\r\nContent-Length: 2\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Transfer-Encoding: chunked, chunked\r\n",
    b" folded: header\r\n",
    b"Host: other\r\n",
    b"no colon\r\n",
    b"X: a\rb\r\n",
    b"Transfer-Encoding: chunked\r\n",
)


_CHUNKS = st.sampled_from((20_000, 7, 7_000))


def _encode_chunked(body: bytes, size: int) -> bytes:
    chunks = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


@st.composite
def _requests(draw: Callable[..., Any]) -> RawRequest:
    """Draw a request, which in most cases is malformed in only one part, so that later checks are reached."""
    template, methods = draw(st.sampled_from(PATHS))
    method = draw(st.sampled_from((*methods, *methods, *methods, draw(st.sampled_from(_OTHER_METHODS)))))
    target = draw(_fill_template(template)) + draw(_QUERIES)
    has_body = method in (b"POST", b"PUT", b"PATCH") or draw(st.integers(0, 9)) == 0
    body = draw(bodies) if has_body else b""
    headers = [_JSON] if has_body and draw(st.integers(0, 5)) else []
    headers += draw(st.lists(_HEADERS, max_size=draw(st.sampled_from((0, 0, 0, 1, 3)))))
    request = RawRequest(method=method, target=target, headers=tuple(headers), body=body)
    if not has_body or draw(st.integers(0, 5)):
        return request
    if draw(st.booleans()):
        return replace(request, body=_encode_chunked(body, draw(_CHUNKS)), framing=_FRAMINGS[-1])
    return replace(request, framing=draw(st.sampled_from(_FRAMINGS)), is_broken=True)


requests: SearchStrategy[RawRequest] = _requests()
