"""The form to create or edit a connector, as fields or JSON. The worker validates a config before any write.

Saving takes two steps: the first shows the differences, the second writes them. Nothing is written if the stored config
has changed since the form was rendered; a concurrent write can still occur between this check and the write, because
Connect's REST API has no conditional requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from kraal.config.hidden import HIDDEN, hide, scrub
from kraal.core.errors import NotFound
from kraal.core.ids import Config, Json
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import connector_frame, fetch_config
from web.ui.pages.plugins import fetch_connector_plugin, fetch_plugins, fetch_plugins_by_type
from web.ui.routing import Model, PageRoute, Visit, action, page
from web.ui.sources.api import RequestRejected, SourceUnavailable
from web.ui.sources.plugin_keys import fetch_secret_keys
from web.ui.sources.requests import get_list, get_map
from web.ui.sources.sending import Sender, wait_until_applied
from web.ui.views.commands import Result
from web.ui.views.config import Difference, differences, parse_config, without_unchanged
from web.ui.views.copy_as import Request, connector_yaml
from web.ui.views.form import build_form, parse_errors, parse_password_keys, validation_from_keys
from web.ui.views.form_post import (
    INITIAL_STATES,
    NO_INITIAL_OFFSETS,
    PostedConfig,
    read_post,
    restore,
    typed_digest,
)
from web.ui.views.initial_offsets import (
    NOT_NEW_ERROR,
    UNSUPPORTED_ERROR,
    InitialOffsets,
    check_initial_offsets,
    parse_typed_offsets,
)
from web.ui.views.json_values import mapping
from web.ui.views.plugins import example, find_plugin, initial_config, parse_plugins

if TYPE_CHECKING:
    from starlette.responses import Response

_SINK: Final = "sink"
_NO_CLASS_ERROR: Final = "Set connector.class to the connector plugin's class."
_INVALID_STATUS: Final = HTTPStatus.UNPROCESSABLE_ENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Content of the form."""

    posted_config: PostedConfig
    """Config as typed, with stored secrets masked."""
    name: str = ""
    """Name of the edited connector; empty for a new one."""
    plugin: str = ""
    """Plugin in the path, for a new connector."""
    stored_config: Config | None = None
    secret_keys: frozenset[str] = frozenset()
    """Keys of type PASSWORD."""
    seal: str = ""
    """Seal of the stored config, which detects later changes."""
    view: str = "form"
    initial_state: str = "RUNNING"
    initial_offsets: InitialOffsets = NO_INITIAL_OFFSETS
    """Initial offsets of a new connector."""
    kind: str = ""
    """Type of the plugin, for a new connector: `source` or `sink`; empty if unknown."""
    empty_row_count: int = 2
    """Number of empty rows for further keys, and for further initial offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of a validation by the worker."""

    response: Json = None
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether there are no errors."""
        return not self.errors and not self.problems


@page("/create", "pages/create.html", nav="create")
async def _choose_plugin(visit: Visit) -> Model:
    """List the connector plugins."""
    refuse_if_read_only(visit)
    query = visit.text("q").strip()
    return {"kinds": await fetch_plugins_by_type(visit, query, connectors_only=True), "query": query}


@action("/create", template="pages/form.html", nav="create")
async def _paste_config(visit: Visit) -> Model:
    """Show the form of a pasted config."""
    refuse_if_read_only(visit)
    posted_config = _check_initial_offsets_support(visit, read_post(await visit.form()))
    kind = await _fetch_plugin_type(visit, posted_config)
    draft = Draft(
        posted_config=posted_config,
        view="json" if posted_config.problem else "form",
        plugin=_plugin_class(posted_config.config),
        initial_state=_parse_state(posted_config.initial_state),
        initial_offsets=check_initial_offsets(posted_config.initial_offsets, is_sink=kind == _SINK),
        kind=kind,
    )
    return _form_model(visit, draft, await _validate(visit, draft, posted_config.config))


@page("/create/{plugin}", "pages/form.html", nav="create")
async def _show_new_form(visit: Visit) -> Model:
    """Show an empty form, or a form with the example's values if `example` is set."""
    refuse_if_read_only(visit)
    plugin = await fetch_connector_plugin(visit, visit.segment("plugin"))
    config: dict[str, str | None] = {**initial_config(plugin.name)}
    if visit.text("example"):
        keys = await get_list(visit.source, visit.caller, "connector-plugins", plugin.name, "config")
        config = {key: value for key, value in example(plugin, keys).items() if value != HIDDEN}
    draft = Draft(posted_config=PostedConfig(config=config), plugin=plugin.name, kind=plugin.type)
    verdict = await _validate(visit, draft, config)
    verdict_without_errors = Verdict(response=verdict.response, problems=verdict.problems)
    return _form_model(visit, draft, verdict_without_errors)


@action("/create/{plugin}", template="pages/form.html", nav="create")
async def _create(visit: Visit) -> Model | Response:
    """Validate the form, and create the connector on `save`."""
    refuse_if_read_only(visit)
    fields = await visit.form()
    values = dict(fields)
    posted_config = _check_initial_offsets_support(visit, read_post(fields))
    kind = await _fetch_plugin_type(visit, posted_config)
    initial_offsets = (
        posted_config.initial_offsets
        if posted_config.initial_offsets.rows or not visit.features.kraal
        else parse_typed_offsets(fields)
    )
    draft = Draft(
        posted_config=posted_config,
        plugin=visit.segment("plugin"),
        secret_keys=await fetch_secret_keys(visit.source, visit.caller, posted_config.config),
        view=_next_view(values, posted_config),
        initial_state=_parse_state(posted_config.initial_state or values.get("initial_state", "")),
        initial_offsets=check_initial_offsets(initial_offsets, is_sink=kind == _SINK),
        kind=kind,
        empty_row_count=_parse_row_count(values),
    )
    if posted_config.problem:
        return _form_model(visit, draft, Verdict(), status=_INVALID_STATUS)
    restored_config = restore(posted_config.config, None)
    verdict = await _validate(visit, draft, restored_config.config, restored_config.errors)
    if values.get("do") != "save" or not verdict.is_valid or draft.initial_offsets.error_count:
        is_save = values.get("do") == "save"
        return _form_model(
            visit, draft, verdict, checked=True, status=_INVALID_STATUS if is_save else HTTPStatus.OK
        )
    name = (restored_config.config.get("name") or "").strip()
    request = _create_request(draft, name, restored_config.config)
    message = f"created with initial state {draft.initial_state}"
    return await _write(visit, draft, restored_config.config, verdict, request, name, message)


@page("/connectors/{connector}/edit", "pages/form.html", nav="connectors")
async def _edit(visit: Visit) -> Model:
    """Show the stored config as a form, or a previous version to restore if `version` is set."""
    refuse_if_read_only(visit)
    stored_config = await fetch_config(visit)
    secret_keys = await fetch_secret_keys(visit.source, visit.caller, stored_config)
    empty_draft = Draft(posted_config=PostedConfig(config={}), name=visit.name, secret_keys=secret_keys)
    verdict = await _validate(visit, empty_draft, stored_config)
    secret_keys |= parse_password_keys(verdict.response)
    form_config = (
        await _fetch_earlier_version(visit, visit.number("version"))
        if visit.text("version")
        else hide(stored_config, secret_keys)
    )
    draft = Draft(
        posted_config=PostedConfig(config=form_config),
        name=visit.name,
        stored_config=stored_config,
        secret_keys=secret_keys,
        seal=visit.memory.seals.seal(stored_config, secret_keys),
    )
    return _form_model(visit, draft, verdict)


@action("/connectors/{connector}/edit", template="pages/form.html", nav="connectors")
async def _save(visit: Visit) -> Model | Response:
    """Validate the form, show the differences, and save them after confirmation."""
    refuse_if_read_only(visit)
    fields = await visit.form()
    values = dict(fields)
    posted_config = read_post(fields)
    posted_config = (
        replace(posted_config, problem=NOT_NEW_ERROR) if posted_config.initial_offsets.rows else posted_config
    )
    posted_config.config.setdefault("name", visit.name)
    try:
        stored_config = await fetch_config(visit)
    except RequestRejected as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return await _recreate_model(visit, posted_config, error.text)
    secret_keys = await fetch_secret_keys(visit.source, visit.caller, stored_config)
    seals = visit.memory.seals
    is_unchanged = seals.matches(values.get("seal", ""), stored_config, secret_keys)
    seal = seals.seal(stored_config, secret_keys)
    secret_keys |= await fetch_secret_keys(visit.source, visit.caller, posted_config.config)
    draft = Draft(
        posted_config=posted_config,
        name=visit.name,
        stored_config=stored_config,
        secret_keys=secret_keys,
        seal=seal,
        view=_next_view(values, posted_config),
        empty_row_count=_parse_row_count(values),
    )
    if posted_config.problem:
        return _form_model(visit, draft, Verdict(), status=_INVALID_STATUS)
    restored_config = restore(
        posted_config.config, stored_config, secret_keys, exact=bool(posted_config.text)
    )
    errors = dict(restored_config.errors)
    if posted_config.config["name"] != visit.name:
        errors["name"] = ("A connector cannot be renamed; create another one with this config instead.",)
    verdict = await _validate(visit, draft, restored_config.config, errors)
    if not is_unchanged:
        return _form_model(
            visit,
            draft,
            verdict,
            conflict=True,
            new_config=restored_config.config,
            status=HTTPStatus.CONFLICT,
        )
    if values.get("do") != "save" or not verdict.is_valid:
        is_save = values.get("do") == "save"
        return _form_model(
            visit, draft, verdict, checked=True, status=_INVALID_STATUS if is_save else HTTPStatus.OK
        )
    if values.get("shown") != typed_digest(posted_config.config):
        return _form_model(visit, draft, verdict, new_config=restored_config.config)
    request = Request(
        method="PUT", segments=("connectors", visit.name, "config"), body={**restored_config.config}
    )
    return await _write(visit, draft, restored_config.config, verdict, request, visit.name, "saved")


async def _recreate_model(visit: Visit, posted_config: PostedConfig, reason: str) -> Model:
    """Show the form of a deleted connector as the form of a new connector, to preserve the input."""
    plugin, kind = _plugin_class(posted_config.config), await _fetch_plugin_type(visit, posted_config)
    draft = Draft(posted_config=posted_config, plugin=plugin, kind=kind, view=_next_view({}, posted_config))
    verdict = await _validate(visit, draft, posted_config.config, restore(posted_config.config, None).errors)
    problem = f"{reason}; nothing was saved. You can create it again with this config."
    verdict = replace(verdict, problems=(problem, *verdict.problems))
    return _form_model(visit, draft, verdict, status=HTTPStatus.NOT_FOUND)


async def _write(
    visit: Visit, draft: Draft, config: Config, verdict: Verdict, request: Request, name: str, message: str
) -> Model | Response:
    """Send the config; show the form again if the worker rejects it."""
    try:
        response = await Sender(visit.source, visit.caller).send(request)
    except SourceUnavailable as error:
        problem = f"{error}. The request may have taken effect; check the connector first."
        return _form_model(
            visit, draft, Verdict(response=verdict.response, problems=(problem,)), status=error.status
        )
    except RequestRejected as error:
        text = scrub(error.text, config, draft.secret_keys)
        if initial_offsets := draft.initial_offsets.assign_error(text):
            verdict_without_errors = Verdict(response=verdict.response)
            return _form_model(
                visit,
                replace(draft, initial_offsets=initial_offsets),
                verdict_without_errors,
                status=error.status,
            )
        already_exists = error.status == HTTPStatus.CONFLICT and text.endswith("already exists")
        refusal = Verdict(
            response=verdict.response,
            errors={"name": [text]} if already_exists else {},
            problems=() if already_exists else (text,),
        )
        return _form_model(visit, draft, refusal, status=error.status)
    offsets = mapping(response.value).get("offsets_status")
    suffix = f"\n{offsets}" if isinstance(offsets, str) else ""
    result = Result(name=name, done=True, text=f"{message} (status {response.status}){suffix}")
    token = visit.memory.notices.store(Notice(title="Config", results=(result,)))
    if await wait_until_applied(visit.source, visit.caller, name, config) or draft.name:
        return visit.redirect("connectors", name, result=token)
    return visit.redirect("connectors", result=token)  # the connector's page may still return 404


async def _validate(
    visit: Visit, draft: Draft, config: Config, errors: Mapping[str, Sequence[str]] | None = None
) -> Verdict:
    """Validate a config on the worker, which may take up to 90 s. Removes secrets from the worker's messages."""
    plugin = _plugin_class(config)
    if draft.posted_config.problem or not plugin:
        return Verdict(
            problems=() if draft.posted_config.problem else (_NO_CLASS_ERROR,), errors=errors or {}
        )
    ask = partial(visit.source.ask, caller=visit.caller)
    problems: tuple[str, ...] = ()
    try:
        response = (
            await ask("PUT", "connector-plugins", plugin, "config", "validate", body={**config})
        ).value
    except RequestRejected as error:
        problems = (error.text,)
        response = await _fetch_keys(visit, plugin, config)
    secret_keys = draft.secret_keys | parse_password_keys(response)
    worker_errors = {
        key: [scrub(text, config, secret_keys) for text in texts]
        for key, texts in parse_errors(response).items()
    }
    return Verdict(
        response=response,
        errors={**worker_errors, **(errors or {})},
        problems=tuple(scrub(text, config, secret_keys) for text in problems),
    )


async def _fetch_keys(visit: Visit, plugin: str, config: Config) -> Json:
    """Return the plugin's keys as a validation result, for a config that the worker refuses to validate.

    Return None if the worker does not list the keys.
    """
    try:
        keys = await visit.source.ask("GET", "connector-plugins", plugin, "config", caller=visit.caller)
    except RequestRejected:
        return None
    return validation_from_keys(keys.value, config)


def _form_model(
    visit: Visit,
    draft: Draft,
    verdict: Verdict,
    *,
    checked: bool = False,
    conflict: bool = False,
    new_config: Config | None = None,
    status: int = HTTPStatus.OK,
) -> Model:
    """Return the template values of the form page. `new_config` adds the differences that saving would write."""
    typed_config = draft.posted_config.config
    secret_keys = draft.secret_keys | parse_password_keys(verdict.response)
    fixed_key = (
        "name"
        if draft.name
        else "connector.class"
        if draft.plugin == typed_config.get("connector.class")
        else ""
    )
    masked_config = hide(typed_config, secret_keys)
    changes: list[Difference] | None = None
    if draft.stored_config is not None and new_config is not None:
        changes = without_unchanged(differences(draft.stored_config, new_config, secret_keys))
    frame = connector_frame(visit, "config") if draft.name else {}
    name = draft.name or (typed_config.get("name") or "")
    request = (
        Request(method="PUT", segments=("connectors", name, "config"), body={**masked_config})
        if draft.name
        else _create_request(draft, name, masked_config)
    )
    yaml = connector_yaml(
        name,
        typed_config,
        initial_state=draft.initial_state,
        initial_offsets=draft.initial_offsets.body,
        secret_keys=secret_keys,
    )
    return {
        **frame,
        "draft": draft,
        "name": name,
        "form": build_form(
            verdict.response,
            typed_config,
            errors=verdict.errors,
            problems=verdict.problems,
            fixed={fixed_key},
        ),
        "json": draft.posted_config.text or None,
        "checked": checked and verdict.is_valid and not draft.initial_offsets.error_count,
        "conflict": conflict,
        "changes": changes,
        "shown": typed_digest(typed_config) if changes is not None and not conflict else "",
        "states": INITIAL_STATES,
        "copies": [visit.curl(request), yaml],
        "initial_offsets": None if draft.name or not visit.features.kraal else draft.initial_offsets,
        "status_code": int(status),
    }


async def _fetch_earlier_version(visit: Visit, number: int) -> dict[str, str | None]:
    """Return a previous version of the config, 1 being the latest, with secrets masked by the worker."""
    versions = (await get_map(visit.source, visit.caller, "connectors", visit.name, "configs")).get("earlier")
    if not isinstance(versions, list) or not 0 < number <= len(versions):
        raise NotFound("The worker no longer has this version of the config.")
    return parse_config(versions[number - 1].get("config"))


def _create_request(draft: Draft, name: str, config: Config) -> Request:
    """Return the request that creates the connector."""
    body: dict[str, Json] = {"name": name, "config": {**config}}
    if draft.initial_state != INITIAL_STATES[0]:
        body["initial_state"] = draft.initial_state
    if draft.initial_offsets.body:
        body["initial_offsets"] = draft.initial_offsets.body
    return Request(method="POST", segments=("connectors",), body=body)


def _check_initial_offsets_support(visit: Visit, posted_config: PostedConfig) -> PostedConfig:
    """Return a pasted request; add a problem if the worker does not support its initial offsets."""
    is_unsupported = posted_config.initial_offsets.rows and not visit.features.kraal
    return replace(posted_config, problem=UNSUPPORTED_ERROR) if is_unsupported else posted_config


async def _fetch_plugin_type(visit: Visit, posted_config: PostedConfig) -> str:
    """Return the type of the config's plugin; empty if the plugin is not installed."""
    plugin = _plugin_class(posted_config.config)
    installed_plugin = find_plugin(parse_plugins(await fetch_plugins(visit)), plugin) if plugin else None
    return "" if installed_plugin is None else installed_plugin.type


def _parse_state(text: str) -> str:
    return text if text in INITIAL_STATES else INITIAL_STATES[0]


def _plugin_class(config: Config) -> str:
    return (config.get("connector.class") or "").strip()


def _next_view(values: Mapping[str, str], posted_config: PostedConfig) -> str:
    """Return the next view: `json` to correct an invalid config, else the requested view, else the submitted view."""
    if posted_config.problem:
        return "json"
    button = values.get("do", "")
    return button if button in ("form", "json") else ("json" if "json" in values else "form")


def _parse_row_count(values: Mapping[str, str]) -> int:
    return 8 if values.get("do") == "more" else 2


PAGES: Final[tuple[PageRoute, ...]] = (_choose_plugin, _paste_config, _show_new_form, _create, _edit, _save)
