"""Checks of JSON values against their JSON Schema, made by `jsonschema`, for `json.fail.invalid.schema`.

Schemas without `$schema` are checked as draft 7, and patterns are Python's. Nothing is fetched: references
lead to the schemas that the registry returned. The packages come with the extra `registry`, so this module is imported
when the first check is made. Implements "json.fail.invalid.schema" of
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-json.html.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT7

from kraal.converters.json.parse import QUICK, parse
from kraal.converters.json_schema.loaded import References, SchemaUnfit

_LONGEST: Final = 300
"""Maximum length of a reported reason, which contains a part of the value."""


def mismatch_finder(said: Any, named: Mapping[str, Any]) -> Callable[[str], str | None]:
    """Return a function that returns where and how a JSON text breaks a schema, or None. Any thread.

    `named` are the schemas that it references, by the registry's names. Both functions raise SchemaUnfit for a schema
    that is not valid, and RecursionError for one that is nested too deeply.
    """
    references = References(named)

    def retrieve(uri: str) -> Resource[Any]:
        try:
            return Resource.from_contents(references.document(None, uri), default_specification=DRAFT7)
        except SchemaUnfit as exc:
            raise NoSuchResource(ref=uri) from exc

    kind = validator_for(said, default=Draft7Validator)
    try:
        kind.check_schema(said)
    except SchemaError as exc:
        raise SchemaUnfit(f"{exc.json_path}: {exc.message[:_LONGEST]}") from exc
    validator = kind(said, registry=Registry(retrieve=retrieve))

    def mismatch(text: str) -> str | None:
        try:
            found = best_match(validator.iter_errors(parse(text, QUICK)))
        except Unresolvable as exc:
            raise SchemaUnfit(f"unresolved reference {exc.ref}") from exc
        return None if found is None else f"{found.json_path}: {found.message[:_LONGEST]}"

    return mismatch
