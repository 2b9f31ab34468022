"""Checks of JSON values against their JSON Schema, made by `jsonschema`, for `json.fail.invalid.schema`.

Schemas without `$schema` are checked as draft 7, and so is what a schema references: `$schema` counts at the root.
`pattern` is matched by `kraal.config.patterns`, which limits its time; `patternProperties` is refused, because
`jsonschema` matches it itself, without a limit. Nothing is fetched: references lead to the schemas that the registry
returned. The packages come with the extra `registry`, so this module is imported
when the first check is made. Implements "json.fail.invalid.schema" of
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-json.html.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from jsonschema import Draft7Validator, ValidationError
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import extend, validator_for
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT7

from kraal.config.patterns import Pattern, compile_pattern
from kraal.converters.json.parse import QUICK, parse
from kraal.converters.json_schema.loaded import References, UnsupportedSchema

_MAX_MESSAGE: Final = 300
"""Maximum length of a reported reason, which contains a part of the value."""

_VALUES: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data."""
_DEPENDENT: Final = ("additionalProperties", "unevaluatedProperties")


def mismatch_finder(parsed: Any, named: Mapping[str, Any]) -> Callable[[str], str | None]:
    """Return a function that returns where and how a JSON text breaks a schema, or None. Any thread.

    `named` are the schemas that it references, by the registry's names. Both functions raise UnsupportedSchema for an
    invalid schema, and RecursionError for one that is nested too deeply.
    """
    references = References(named)

    def retrieve(uri: str) -> Resource[Any]:
        try:
            document = _in_one_dialect(references.document(None, uri))
            return Resource.from_contents(document, default_specification=DRAFT7)
        except UnsupportedSchema as exc:
            raise NoSuchResource(ref=uri) from exc

    kind = validator_for(parsed, default=Draft7Validator)
    try:
        kind.check_schema(parsed)
    except SchemaError as exc:
        raise UnsupportedSchema(f"{exc.json_path}: {exc.message[:_MAX_MESSAGE]}") from exc
    limited = extend(kind, {"pattern": _pattern, "patternProperties": _refuse, **_limited_keywords(kind)})
    validator = limited(_in_one_dialect(parsed), registry=Registry(retrieve=retrieve))

    def mismatch(text: str) -> str | None:
        try:
            error = best_match(validator.iter_errors(parse(text, QUICK)))
        except Unresolvable as exc:
            raise UnsupportedSchema(f"unresolved reference {exc.ref}") from exc
        return None if error is None else f"{error.json_path}: {error.message[:_MAX_MESSAGE]}"

    return mismatch


def _in_one_dialect(node: Any) -> Any:
    """Return a schema without `$schema`, at which `jsonschema` would change to a validator without our limits."""
    if isinstance(node, list):
        return [_in_one_dialect(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value if key in _VALUES else _in_one_dialect(value)
        for key, value in node.items()
        if not (key == "$schema" and isinstance(value, str))
    }


def _pattern(_: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Implement `pattern` within a limit of time. Raises PatternTooSlow, UnsupportedSchema."""
    del schema
    if isinstance(instance, str) and not _compile(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern, pattern)
    except ValueError as exc:
        raise UnsupportedSchema(f"pattern {pattern[:_MAX_MESSAGE]!r}: {exc}") from exc


def _refuse(*_: Any) -> Iterator[ValidationError]:
    raise UnsupportedSchema("patternProperties is not supported with json.fail.invalid.schema=true")


def _limited_keywords(kind: Any) -> Mapping[str, Any]:
    """Return the keywords that depend on `patternProperties`, which match it without a limit as well."""

    def with_limit(keyword: Any) -> Any:
        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            return _refuse() if _has_patterns(schema) else keyword(validator, value, instance, schema)

        return check

    return {name: with_limit(kind.VALIDATORS[name]) for name in _DEPENDENT if name in kind.VALIDATORS}


def _has_patterns(node: Any) -> bool:
    if isinstance(node, list):
        return any(map(_has_patterns, node))
    return isinstance(node, dict) and ("patternProperties" in node or any(map(_has_patterns, node.values())))
