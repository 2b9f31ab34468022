"""Requests and connectors in formats for copying: curl commands, and YAML for `kraal apply`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from kraal.config.hidden import HIDDEN, hide
from kraal.config.yaml_text import to_yaml
from kraal.core.ids import Config, Json
from kraal.core.printable import printable
from kraal.core.rest_requests import encode_segment

_NOT_IN_NAMES: Final = re.compile(r"[^A-Z0-9]+")
_YAML: Final = "YAML for kraal apply"
YAML_NOTE: Final = (
    f"# Replace {HIDDEN} with the secret or a reference such as ${{file:/run/secrets.properties:password}}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request to Connect's REST API; `segments` are the decoded path segments."""

    method: str
    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    body: Json = None

    @property
    def path(self) -> str:
        """Encoded path with the query."""
        query = f"?{urlencode(self.query)}" if self.query else ""
        return "/" + "/".join(map(encode_segment, self.segments)) + query

    @property
    def text(self) -> str:
        """Method and path, for display."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """Text to copy. `notes` are sentences to show with the text, such as steps that are required first."""

    title: str
    text: str
    notes: tuple[str, ...] = ()


def curl(request: Request, base_url: str, *, needs_password: bool = False) -> Snippet:
    """Return a request as a curl command for a POSIX shell. Secrets in the body must already be masked.

    Each masked secret becomes a variable, without which the shell refuses to run the command.
    """
    words = ["curl", "-sS", *([] if request.method == "GET" else ["-X", request.method])]
    quoted_words = [shlex.quote(word) for word in words]
    notes: list[str] = []
    if needs_password:
        quoted_words += ["-u", '"${CONNECT_USER:?}:${CONNECT_PASSWORD:?}"']
        notes.append("Set CONNECT_USER and CONNECT_PASSWORD, the user and password of the worker.")
    body = ""
    if request.body is not None:
        quoted_words += ["-H", shlex.quote("Content-Type: application/json")]
        text, names = _quote_body(request.body)
        body = f" \\\n  --data-binary {text}"
        if names:
            notes.append(
                f"Set {', '.join(names)} in the shell first. Each value is inserted into JSON: "
                'write " as \\" and \\ as \\\\.'
            )
    quoted_words.append(shlex.quote(base_url.rstrip("/") + request.path))
    return Snippet(title="curl", text=" ".join(quoted_words) + body, notes=tuple(notes))


def join_copies(copies: Sequence[Snippet]) -> list[Snippet]:
    """Join snippets of the same format into one snippet."""
    if not copies:
        return []
    notes = tuple(dict.fromkeys(note for snippet in copies for note in snippet.notes))
    return [Snippet(title=copies[0].title, text="\n".join(snippet.text for snippet in copies), notes=notes)]


def limit_copies(
    copies: Sequence[Snippet], total: int, limit: int, *, item_name: str = "requests"
) -> list[Snippet]:
    """Add a note to snippets that cover only the first `limit` of `total` items."""
    if total <= limit:
        return list(copies)
    note = f"These are the first {limit} of {total:,} {item_name}."
    return [replace(snippet, notes=(note, *snippet.notes)) for snippet in copies]


def connector_yaml(
    name: str,
    config: Config,
    *,
    initial_state: str = "RUNNING",
    initial_offsets: Sequence[Json] = (),
    secret_keys: Collection[str] = (),
) -> Snippet:
    """Return a connector as a file for `kraal apply`, with masked secrets, which `apply` rejects."""
    masked_config = {key: value for key, value in hide(config, secret_keys).items() if key != "name"}
    content: dict[str, Json] = {"name": name, "config": {**masked_config}}
    if initial_state != "RUNNING":
        content["initial_state"] = initial_state
    if initial_offsets:
        content["initial_offsets"] = [*initial_offsets]
    text = to_yaml(content)
    if not any(value is not None and HIDDEN in value for value in masked_config.values()):
        return Snippet(title=_YAML, text=text)
    return Snippet(
        title=_YAML,
        text=f"{YAML_NOTE}\n{text}",
        notes=(f"Values with {HIDDEN} are secrets, which must be filled in before `kraal apply`.",),
    )


def join_as_file(copies: Sequence[Snippet]) -> list[Snippet]:
    """Join connectors in YAML into one file with a document per connector."""
    if not copies:
        return []
    return [replace(join_copies(copies)[0], text="---\n".join(snippet.text for snippet in copies))]


def secret_variables(keys: Sequence[str]) -> dict[str, str]:
    """Return a unique shell variable name for each key, such as `DATABASE_PASSWORD`."""
    variables: dict[str, str] = {}
    for key in keys:
        name = _NOT_IN_NAMES.sub("_", key.upper()).strip("_") or "SECRET"
        name = f"_{name}" if name[0].isdigit() else name
        candidate, number = name, 2
        while candidate in variables.values():
            candidate, number = f"{name}_{number}", number + 1
        variables[key] = candidate
    return variables


def _quote_body(body: Json) -> tuple[str, list[str]]:
    """Return a JSON body as a shell word, and the variables in it."""
    text = json.dumps(body, ensure_ascii=False, indent=2)
    if printable(text, keep="\n") != text:
        text = json.dumps(body, ensure_ascii=True, indent=2)
    secret_keys = list(_masked_keys(body, ""))
    names = secret_variables(list(dict.fromkeys(secret_key for secret_key in secret_keys if secret_key)))
    first_part, *later_parts = text.split(HIDDEN)
    word = shlex.quote(first_part)
    for secret_key, part in zip(secret_keys, later_parts, strict=True):
        word += f'"${{{names[secret_key]}:?}}"' if secret_key else shlex.quote(HIDDEN)
        word += shlex.quote(part)
    return word, list(names.values())


def _masked_keys(body: Json, key: str) -> Iterator[str]:
    """Yield the key of each placeholder in the order of the JSON text; empty for a placeholder in a key."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield from [""] * name.count(HIDDEN)
            yield from _masked_keys(value, name)
    elif isinstance(body, list):
        for value in body:
            yield from _masked_keys(value, key)
    elif isinstance(body, str):
        yield from [key or "secret"] * body.count(HIDDEN)
