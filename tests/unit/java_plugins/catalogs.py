"""A catalog of Java plugins, some of which have two versions."""

from __future__ import annotations

import json


def key(name: str, **attributes: object) -> dict[str, object]:
    info = {
        "name": name,
        "type": "INT",
        "required": False,
        "default_value": "5",
        "importance": "LOW",
        "documentation": "How many.",
        "group": None,
        "order_in_group": -1,
        "width": "NONE",
        "display_name": name,
        "dependents": [],
    }
    return info | attributes


def plugin(name: str, kind: str, version: str = "2.0", **attributes: object) -> dict[str, object]:
    return {
        "class": name,
        "kind": kind,
        "version": version,
        "location": "file:/p/",
        "keys": [key("size")],
        **attributes,
    }


CATALOG = json.dumps(
    [
        plugin("com.example.OldSource", "source", "1.0", location="file:/one/", keys=[key("old")]),
        plugin("com.example.OldSource", "source", "2.0", task_class="com.example.Task"),
        plugin("com.example.Change", "transformation", "1.0", location="file:/one/", keys=[key("old")]),
        plugin("com.example.Change", "transformation"),
        plugin("com.example.Both", "converter", "1.0", location="file:/one/", keys=[key("old")]),
        plugin("com.example.Both", "converter"),
        plugin("com.example.Both", "header_converter"),
        plugin("com.example.Broken", "sink", keys=[], error="NoClassDefFoundError"),
    ]
)
