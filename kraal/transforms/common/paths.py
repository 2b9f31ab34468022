"""Paths to nested fields.

Source: SingleFieldPath, FieldSyntaxVersion (KIP-821, Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kraal.config.checks import one_of_ignoring_case
from kraal.config.key import ConfigType, Importance, Key
from kraal.plugins.model.records import Struct
from kraal.plugins.model.schema import Field, Schema
from kraal.transforms.common.errors import ConfigException
from kraal.transforms.common.structs import find_field, read, require_map, require_struct

_PURPOSE = "nested field access"

SYNTAX: Final = Key(
    name="field.syntax.version",
    type=ConfigType.STRING,
    default="V1",
    validator=one_of_ignoring_case("V1", "V2"),
    importance=Importance.HIGH,
    doc="Syntax of field names. V1: the name of a top-level field. V2: a path of names separated by dots; "
    "a name that contains dots is enclosed in backticks: `a.b`.c.",
    source="FieldSyntaxVersion.FIELD_SYNTAX_VERSION_CONFIG (KIP-821)",
)


@dataclass(frozen=True, slots=True)
class Path:
    """One or more field names, from the top level down."""

    steps: tuple[str, ...]

    @staticmethod
    def of(text: str, syntax: str) -> Path:
        """Parse a path in syntax V1 (the text is one step) or V2 (see `parse`). Raises ConfigException."""
        return Path.parse(text) if syntax.upper() == "V2" else Path((text,))

    @staticmethod
    def parse(text: str) -> Path:
        r"""Parse a path in syntax V2: steps separated by dots. A step that contains dots is enclosed in backticks.

        Raises ConfigException for an unmatched backtick.
        """
        steps: list[str] = []
        at = 0
        while at < len(text):
            if text[at] == "`":
                step, at = _parse_quoted_step(text, at)
                steps.append(step)
                continue
            step, _, remainder = text[at:].partition(".")
            steps.append(step)
            at = len(text) - len(remainder) if remainder else len(text)
        if text.endswith("."):
            steps.append("")
        return Path(tuple(steps) or ("",))

    def field(self, schema: Schema) -> Field | None:
        """Return the schema field; None if a step is missing. Raises DataException if a parent is not a struct."""
        parent_schema = schema
        for step in self.steps[:-1]:
            field = find_field(parent_schema, step)
            if field is None:
                return None
            parent_schema = field.schema
        return find_field(parent_schema, self.steps[-1])

    def get_from_struct(self, struct: Struct, *, replace_null: bool) -> Any:
        """Return the value of the field; None if a step is missing or a parent is null.

        Null parents are replaced by their defaults, if any; a null field is replaced only if `replace_null` is set.
        Raises DataException if a parent is not a struct.
        """
        parent = struct
        for step in self.steps[:-1]:
            field = find_field(parent.schema, step)
            value = None if field is None else read(parent, field, replace_null=True)
            if value is None:
                return None
            parent = require_struct(value, _PURPOSE, None if field is None else field.schema)
        leaf_field = find_field(parent.schema, self.steps[-1])
        return None if leaf_field is None else read(parent, leaf_field, replace_null=replace_null)

    def get_from_map(self, obj: Mapping[str, Any]) -> Any:
        """Return the value of the field in a schemaless object; None if a step is missing or a parent is null.

        Raises DataException if a parent is not an object.
        """
        parent = obj
        for step in self.steps[:-1]:
            value = parent.get(step)
            if value is None:
                return None
            parent = require_map(value, _PURPOSE)
        return parent.get(self.steps[-1])


def _parse_quoted_step(text: str, opening: int) -> tuple[str, int]:
    """Return the step that starts with the backtick at `opening`, and the index of the next step.

    The step ends at a backtick before a dot or at the end of the text; other backticks are part of the name.
    """
    name, start = "", opening + 1
    at = start
    while True:
        at = text.find("`", at)
        is_last = at == len(text) - 1
        is_escaped = at > 0 and text[at - 1] == "\\"
        if at < 0 or (is_last and is_escaped):
            raise ConfigException(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at "
                f"position {opening} to escape it"
            )
        if is_last:
            return name + text[start:at], len(text)
        if text[at + 1] != ".":
            at += 1
        elif is_escaped:
            name += text[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + text[start:at], at + 2
