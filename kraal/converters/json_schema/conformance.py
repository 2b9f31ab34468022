"""Validates JSON values against their JSON Schema with `jsonschema`, for `json.fail.invalid.schema`.

Referenced schemas, and schemas without `$schema`, are validated as draft 7: `$schema` is read only at the root.
`kraal.config.patterns` matches `pattern` with a time limit. `patternProperties` is rejected, because `jsonschema`
matches it without a time limit. No documents are fetched: references resolve only to the schemas that the registry
returned. This module is imported on first use, because its packages are installed only with the extra `registry`.
Implements "json.fail.invalid.schema" of
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
from kraal.converters.json.parse import FAST_DECODER, parse
from kraal.converters.json_schema.loaded import References, UnsupportedSchema

_MAX_MESSAGE_LENGTH: Final = 300
"""Maximum length of a message, which contains a part of the value."""

_DATA_KEYWORDS: Final = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are data, not schemas."""
_DEPENDENT_KEYWORDS: Final = ("additionalProperties", "unevaluatedProperties")


def make_validator(parsed: Any, references_by_name: Mapping[str, Any]) -> Callable[[str], str | None]:
    """Return a function that validates a JSON text. It returns the error with its location, or None for a valid text.

    The returned function is thread-safe. The keys of `references_by_name` are the registry's names. This function and
    the returned function raise UnsupportedSchema for an invalid schema, and RecursionError for a schema that is nested
    too deeply.
    """
    references = References(references_by_name)

    def retrieve(uri: str) -> Resource[Any]:
        try:
            document = _remove_dialects(references.find_document(None, uri))
            return Resource.from_contents(document, default_specification=DRAFT7)
        except UnsupportedSchema as exc:
            raise NoSuchResource(ref=uri) from exc

    validator_class = validator_for(parsed, default=Draft7Validator)
    try:
        validator_class.check_schema(parsed)
    except SchemaError as exc:
        raise UnsupportedSchema(f"{exc.json_path}: {exc.message[:_MAX_MESSAGE_LENGTH]}") from exc
    keywords = {"pattern": _check_pattern, "patternProperties": _reject_pattern_properties}
    limited_class = extend(validator_class, {**keywords, **_wrap_dependent_keywords(validator_class)})
    validator = limited_class(_remove_dialects(parsed), registry=Registry(retrieve=retrieve))

    def validate(text: str) -> str | None:
        try:
            error = best_match(validator.iter_errors(parse(text, FAST_DECODER)))
        except Unresolvable as exc:
            raise UnsupportedSchema(f"unresolved reference {exc.ref}") from exc
        return None if error is None else f"{error.json_path}: {error.message[:_MAX_MESSAGE_LENGTH]}"

    return validate


def _remove_dialects(node: Any) -> Any:
    """Return a schema without `$schema`, for which `jsonschema` would switch to a validator without time limits."""
    if isinstance(node, list):
        return [_remove_dialects(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value if key in _DATA_KEYWORDS else _remove_dialects(value)
        for key, value in node.items()
        if not (key == "$schema" and isinstance(value, str))
    }


def _check_pattern(_: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Implement the keyword `pattern` with a time limit. Raises PatternTooSlow, UnsupportedSchema."""
    del schema
    if isinstance(instance, str) and not _compile(pattern).search(instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Pattern:
    try:
        return compile_pattern(pattern, pattern)
    except ValueError as exc:
        raise UnsupportedSchema(f"pattern {pattern[:_MAX_MESSAGE_LENGTH]!r}: {exc}") from exc


def _reject_pattern_properties(*_: Any) -> Iterator[ValidationError]:
    raise UnsupportedSchema("patternProperties is not supported with json.fail.invalid.schema=true")


def _wrap_dependent_keywords(validator_class: Any) -> Mapping[str, Any]:
    """Return wrappers that reject `patternProperties`, for keywords that match it without a time limit."""

    def wrap(keyword: Any) -> Any:
        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
            if _has_pattern_properties(schema):
                return _reject_pattern_properties()
            return keyword(validator, value, instance, schema)

        return check

    return {
        name: wrap(validator_class.VALIDATORS[name])
        for name in _DEPENDENT_KEYWORDS
        if name in validator_class.VALIDATORS
    }


def _has_pattern_properties(node: Any) -> bool:
    if isinstance(node, list):
        return any(map(_has_pattern_properties, node))
    return isinstance(node, dict) and (
        "patternProperties" in node or any(map(_has_pattern_properties, node.values()))
    )
