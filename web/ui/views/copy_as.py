"""Requests and connectors to copy: as a command for curl, and as YAML for `kraal apply`."""

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
from kraal.core.rest_requests import segment

_NOT_IN_NAMES: Final = re.compile(r"[^A-Z0-9]+")
_YAML: Final = "YAML for kraal apply"
YAML_NOTE: Final = (
    f"# Replace {HIDDEN} by the secret, or by a reference such as ${{file:/run/secrets.properties:password}}."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to Connect's REST API; `segments` are the decoded parts of the path."""

    method: str
    segments: tuple[str, ...]
    query: tuple[tuple[str, str], ...] = ()
    body: Json = None

    @property
    def path(self) -> str:
        """The encoded path with its query."""
        query = f"?{urlencode(self.query)}" if self.query else ""
        return "/" + "/".join(map(segment, self.segments)) + query

    @property
    def text(self) -> str:
        """Method and path, for a line on a page."""
        return f"{self.method} {self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A text to copy; `notes` tell what to do before it can be used."""

    title: str
    text: str
    notes: tuple[str, ...] = ()


def curl(request: Request, base_url: str, *, passwords: bool = False) -> Copied:
    """Return a request as a command for a POSIX shell; the body's secrets must be masked already.

    Each masked secret becomes a variable without which the shell refuses to run the command.
    """
    words = ["curl", "-sS", *([] if request.method == "GET" else ["-X", request.method])]
    quoted = [shlex.quote(each) for each in words]
    notes: list[str] = []
    if passwords:
        quoted += ["-u", '"${CONNECT_USER:?}:${CONNECT_PASSWORD:?}"']
        notes.append("Set CONNECT_USER and CONNECT_PASSWORD, the user and password of the worker.")
    body = ""
    if request.body is not None:
        quoted += ["-H", shlex.quote("Content-Type: application/json")]
        text, names = _body(request.body)
        body = f" \\\n  --data-binary {text}"
        if names:
            notes.append(
                f"Set {', '.join(names)} first, exported or in the same shell. The value is put into JSON as it is: "
                'write " as \\" and \\ as \\\\.'
            )
    quoted.append(shlex.quote(base_url.rstrip("/") + request.path))
    return Copied(title="curl", text=" ".join(quoted) + body, notes=tuple(notes))


def together(copies: Sequence[Copied]) -> list[Copied]:
    """Return several texts of one kind as one, one after the other; none for none."""
    if not copies:
        return []
    notes = tuple(dict.fromkeys(note for each in copies for note in each.notes))
    return [Copied(title=copies[0].title, text="\n".join(each.text for each in copies), notes=notes)]


def first_of(copies: Sequence[Copied], total: int, most: int, *, of: str = "requests") -> list[Copied]:
    """Return texts of the first `most` requests, or of what `of` names, with a note that tells so if there are more."""
    if total <= most:
        return list(copies)
    note = f"These are the first {most} of {total:,} {of}."
    return [replace(each, notes=(note, *each.notes)) for each in copies]


def connector_yaml(
    name: str,
    config: Config,
    *,
    initial_state: str = "RUNNING",
    initial_offsets: Sequence[Json] = (),
    declared: Collection[str] = (),
) -> Copied:
    """Return a connector as a file for `kraal apply`, with its secrets masked; `apply` refuses masked values."""
    masked = {key: value for key, value in hide(config, declared).items() if key != "name"}
    content: dict[str, Json] = {"name": name, "config": {**masked}}
    if initial_state != "RUNNING":
        content["initial_state"] = initial_state
    if initial_offsets:
        content["initial_offsets"] = [*initial_offsets]
    text = to_yaml(content)
    if not any(value is not None and HIDDEN in value for value in masked.values()):
        return Copied(title=_YAML, text=text)
    return Copied(
        title=_YAML,
        text=f"{YAML_NOTE}\n{text}",
        notes=(f"Values with {HIDDEN} are secrets, which `kraal apply` asks you to fill in.",),
    )


def one_file(copies: Sequence[Copied]) -> list[Copied]:
    """Return connectors as YAML as one file with a document each; none for none."""
    if not copies:
        return []
    return [replace(together(copies)[0], text="---\n".join(each.text for each in copies))]


def secret_variables(keys: Sequence[str]) -> dict[str, str]:
    """Return a name of a shell variable for each key, such as `DATABASE_PASSWORD`; the names differ."""
    found: dict[str, str] = {}
    for key in keys:
        name = _NOT_IN_NAMES.sub("_", key.upper()).strip("_") or "SECRET"
        name = f"_{name}" if name[0].isdigit() else name
        candidate, number = name, 2
        while candidate in found.values():
            candidate, number = f"{name}_{number}", number + 1
        found[key] = candidate
    return found


def _body(body: Json) -> tuple[str, list[str]]:
    """Return a JSON body as a word of a shell, and the variables in it."""
    text = json.dumps(body, ensure_ascii=False, indent=2)
    if printable(text, keep="\n") != text:
        text = json.dumps(body, ensure_ascii=True, indent=2)
    owners = list(_owners(body, ""))
    names = secret_variables(list(dict.fromkeys(owner for owner in owners if owner)))
    first, *others = text.split(HIDDEN)
    word = shlex.quote(first)
    for owner, other in zip(owners, others, strict=True):
        word += f'"${{{names[owner]}:?}}"' if owner else shlex.quote(HIDDEN)
        word += shlex.quote(other)
    return word, list(names.values())


def _owners(body: Json, key: str) -> Iterator[str]:
    """Yield the key of each placeholder in the order of the JSON text; empty for one that is part of a key."""
    if isinstance(body, dict):
        for name, value in body.items():
            yield from [""] * name.count(HIDDEN)
            yield from _owners(value, name)
    elif isinstance(body, list):
        for value in body:
            yield from _owners(value, key)
    elif isinstance(body, str):
        yield from [key or "secret"] * body.count(HIDDEN)
