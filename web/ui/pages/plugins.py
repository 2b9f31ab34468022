"""Pages for the list of installed plugins, and for one plugin with its documentation and an example config."""

from __future__ import annotations

from typing import Any, Final

from kraal.core.errors import NotFound
from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.requests import get_list
from web.ui.views.copy_as import Request, connector_yaml
from web.ui.views.form import json_text
from web.ui.views.plugins import Kind, Plugin, example, find_plugin, group_by_type, parse_keys, parse_plugins


@page("/plugins", "pages/plugins.html", nav="plugins")
async def _plugins(visit: Visit) -> Model:
    """List the plugins whose class name contains the query parameter `q`, ignoring case."""
    query = visit.text("q").strip()
    return {"kinds": await fetch_plugins_by_type(visit, query), "query": query}


async def fetch_plugins_by_type(visit: Visit, query: str, *, connectors_only: bool = False) -> list[Kind]:
    """Return the plugins whose class name contains `query`, grouped by type."""
    plugins = parse_plugins(await fetch_plugins(visit), query)
    return group_by_type([plugin for plugin in plugins if plugin.is_connector or not connectors_only])


@page("/plugins/{plugin}", "pages/plugin.html", nav="plugins")
async def _plugin(visit: Visit) -> Model:
    """Document one plugin; `version` chooses among several installed versions (KIP-891)."""
    name, version = visit.segment("plugin"), visit.text("version")
    query = (("version", version),) if version else ()
    keys = await get_list(visit.source, visit.caller, "connector-plugins", name, "config", query=query)
    plugins = parse_plugins(await fetch_plugins(visit))
    plugin = find_plugin(plugins, name) or Plugin(name=name, type="", version=version)
    versions = [
        candidate.version for candidate in plugins if candidate.name == plugin.name and candidate.version
    ]
    config = example(plugin, keys) if plugin.is_connector else {}
    create = Request(
        method="POST", segments=("connectors",), body={"name": config.get("name"), "config": {**config}}
    )
    return {
        "plugin": plugin,
        "version": version,
        "versions": versions,
        "groups": parse_keys(keys),
        "example": json_text(config) if config else "",
        "copies": [connector_yaml(config["name"], config), visit.curl(create)] if config else [],
    }


async def fetch_plugins(visit: Visit) -> list[Any]:
    """GET all plugins. Older Java workers ignore `connectorsOnly` and list only connectors."""
    plugins: list[Any] = await get_list(
        visit.source, visit.caller, "connector-plugins", query=(("connectorsOnly", "false"),)
    )
    return plugins


async def fetch_connector_plugin(visit: Visit, name: str) -> Plugin:
    """Return an installed connector plugin. Raises NotFound."""
    plugin = find_plugin(
        [plugin for plugin in parse_plugins(await fetch_plugins(visit)) if plugin.is_connector], name
    )
    if plugin is None:
        raise NotFound(f"There is no connector plugin {name}.")
    return plugin


PAGES: Final[tuple[PageRoute, ...]] = (_plugins, _plugin)
