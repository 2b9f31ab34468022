"""The form to create and to edit a connector: as fields or as JSON, checked by the worker before anything is written.

Saving takes two steps: the first shows the differences, the second writes what was shown. Nothing is written if the
stored config has changed since the form was made; between this comparison and the write another writer may still come
first, because Connect's REST API has no conditional requests.
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
from web.ui.pages.connector import connector_frame, stored_config
from web.ui.pages.plugins import all_plugins, connector_plugin, plugins_shown
from web.ui.routing import Model, Page, Visit, action, page
from web.ui.sources.api import Away, Refused
from web.ui.sources.plugin_keys import declared_secrets
from web.ui.sources.requests import get_list, get_map
from web.ui.sources.sending import Sender
from web.ui.sources.settling import has_settled
from web.ui.views.commands import Result
from web.ui.views.config import Difference, config_of, differences, only_changes
from web.ui.views.copy_as import Request, connector_yaml
from web.ui.views.form import answer_of_keys, errors_of, form_of, password_keys_of
from web.ui.views.form_post import NO_START, STATES, Posted, read_post, restore, typed_digest
from web.ui.views.initial_offsets import NOT_SUPPORTED, ONLY_NEW, Start, checked_start, typed_start
from web.ui.views.json_values import mapping
from web.ui.views.plugins import example, first_config, plugin_named, plugins_of

if TYPE_CHECKING:
    from starlette.responses import Response

_SINK: Final = "sink"
_NO_CLASS: Final = "Set connector.class to the connector plugin's class."
_WRONG: Final = HTTPStatus.UNPROCESSABLE_ENTITY


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A form that is being filled."""

    posted: Posted
    """Config as typed: stored secrets are masked."""
    name: str = ""
    """Name of the connector that is edited; empty for a new one."""
    plugin: str = ""
    """Plugin in the path, for a new connector."""
    stored: Config | None = None
    declared: frozenset[str] = frozenset()
    """Keys of type PASSWORD."""
    seal: str = ""
    """Tells later whether the stored config has changed."""
    view: str = "form"
    initial_state: str = "RUNNING"
    start: Start = NO_START
    """Initial offsets of a new connector."""
    kind: str = ""
    """Type of the plugin, for a new connector: `source` or `sink`; empty if not known."""
    rows: int = 2
    """Number of empty rows for further keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the worker said about a config."""

    answer: Json = None
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Whether there are no errors."""
        return not self.errors and not self.problems


@page("/create", "pages/create.html", nav="create")
async def _choose(visit: Visit) -> Model:
    """List the plugins of which a connector can be made."""
    refuse_if_read_only(visit)
    query = visit.text("q").strip()
    return {"kinds": await plugins_shown(visit, query, connectors_only=True), "query": query}


@action("/create", template="pages/form.html", nav="create")
async def _paste(visit: Visit) -> Model:
    """Show the form of a pasted config."""
    refuse_if_read_only(visit)
    posted = _taken(visit, read_post(await visit.form()))
    kind = await _kind_of(visit, posted)
    draft = Draft(
        posted=posted,
        view="json" if posted.problem else "form",
        plugin=_class_of(posted.config),
        initial_state=_state(posted.initial_state),
        start=checked_start(posted.start, sink=kind == _SINK),
        kind=kind,
    )
    return _shown(visit, draft, await _verdict(visit, draft, posted.config))


@page("/create/{plugin}", "pages/form.html", nav="create")
async def _new(visit: Visit) -> Model:
    """Show an empty form, or with `example` one with the example's values."""
    refuse_if_read_only(visit)
    plugin = await connector_plugin(visit, visit.segment("plugin"))
    config: dict[str, str | None] = {**first_config(plugin.name)}
    if visit.text("example"):
        keys = await get_list(visit.source, visit.caller, "connector-plugins", plugin.name, "config")
        config = {key: value for key, value in example(plugin, keys).items() if value != HIDDEN}
    draft = Draft(posted=Posted(config=config), plugin=plugin.name, kind=plugin.type)
    verdict = await _verdict(visit, draft, config)
    fresh = Verdict(answer=verdict.answer, problems=verdict.problems)
    return _shown(visit, draft, fresh)


@action("/create/{plugin}", template="pages/form.html", nav="create")
async def _create(visit: Visit) -> Model | Response:
    """Check the form, and create the connector if that was asked for."""
    refuse_if_read_only(visit)
    fields = await visit.form()
    known = dict(fields)
    posted = _taken(visit, read_post(fields))
    kind = await _kind_of(visit, posted)
    start = posted.start if posted.start.rows or not visit.features.kraal else typed_start(fields)
    draft = Draft(
        posted=posted,
        plugin=visit.segment("plugin"),
        declared=await declared_secrets(visit.source, visit.caller, posted.config),
        view=_view(known, posted),
        initial_state=_state(posted.initial_state or known.get("initial_state", "")),
        start=checked_start(start, sink=kind == _SINK),
        kind=kind,
        rows=_rows(known),
    )
    if posted.problem:
        return _shown(visit, draft, Verdict(), status=_WRONG)
    restored = restore(posted.config, None)
    verdict = await _verdict(visit, draft, restored.config, restored.errors)
    if known.get("do") != "save" or not verdict.good or draft.start.errors:
        wrong = known.get("do") == "save"
        return _shown(visit, draft, verdict, checked=True, status=_WRONG if wrong else HTTPStatus.OK)
    name = (restored.config.get("name") or "").strip()
    request = _creation(draft, name, restored.config)
    told = f"created, to be {draft.initial_state}"
    return await _written(visit, draft, restored.config, verdict, request, name, told)


@page("/connectors/{connector}/edit", "pages/form.html", nav="connectors")
async def _edit(visit: Visit) -> Model:
    """Show the stored config as a form, or with `version` an earlier one to go back to."""
    refuse_if_read_only(visit)
    stored = await stored_config(visit)
    declared = await declared_secrets(visit.source, visit.caller, stored)
    empty = Draft(posted=Posted(config={}), name=visit.name, declared=declared)
    verdict = await _verdict(visit, empty, stored)
    declared |= password_keys_of(verdict.answer)
    shown = (
        await _earlier(visit, visit.number("version")) if visit.text("version") else hide(stored, declared)
    )
    draft = Draft(
        posted=Posted(config=shown),
        name=visit.name,
        stored=stored,
        declared=declared,
        seal=visit.memory.seals.seal(stored, declared),
    )
    return _shown(visit, draft, verdict)


@action("/connectors/{connector}/edit", template="pages/form.html", nav="connectors")
async def _save(visit: Visit) -> Model | Response:
    """Check the form; show the differences; write them once they were shown."""
    refuse_if_read_only(visit)
    fields = await visit.form()
    known = dict(fields)
    posted = read_post(fields)
    posted = replace(posted, problem=ONLY_NEW) if posted.start.rows else posted
    posted.config.setdefault("name", visit.name)
    try:
        stored = await stored_config(visit)
    except Refused as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return await _deleted(visit, posted, error.text)
    declared = await declared_secrets(visit.source, visit.caller, stored)
    seals = visit.memory.seals
    kept, seal = seals.holds(known.get("seal", ""), stored, declared), seals.seal(stored, declared)
    declared |= await declared_secrets(visit.source, visit.caller, posted.config)
    draft = Draft(
        posted=posted,
        name=visit.name,
        stored=stored,
        declared=declared,
        seal=seal,
        view=_view(known, posted),
        rows=_rows(known),
    )
    if posted.problem:
        return _shown(visit, draft, Verdict(), status=_WRONG)
    restored = restore(posted.config, stored, declared, exact=bool(posted.text))
    errors = dict(restored.errors)
    if posted.config["name"] != visit.name:
        errors["name"] = ("A connector cannot be renamed; create another one with this config instead.",)
    verdict = await _verdict(visit, draft, restored.config, errors)
    if not kept:
        return _shown(
            visit, draft, verdict, conflict=True, written=restored.config, status=HTTPStatus.CONFLICT
        )
    if known.get("do") != "save" or not verdict.good:
        wrong = known.get("do") == "save"
        return _shown(visit, draft, verdict, checked=True, status=_WRONG if wrong else HTTPStatus.OK)
    if known.get("shown") != typed_digest(posted.config):
        return _shown(visit, draft, verdict, written=restored.config)
    request = Request(method="PUT", segments=("connectors", visit.name, "config"), body={**restored.config})
    return await _written(visit, draft, restored.config, verdict, request, visit.name, "saved")


async def _deleted(visit: Visit, posted: Posted, why: str) -> Model:
    """Show the form of a connector that is gone as that of a new one, so that nothing typed is lost."""
    plugin, kind = _class_of(posted.config), await _kind_of(visit, posted)
    draft = Draft(posted=posted, plugin=plugin, kind=kind, view=_view({}, posted))
    verdict = await _verdict(visit, draft, posted.config, restore(posted.config, None).errors)
    told = f"{why}; nothing was saved. You can create it again with this config."
    verdict = replace(verdict, problems=(told, *verdict.problems))
    return _shown(visit, draft, verdict, status=HTTPStatus.NOT_FOUND)


async def _written(
    visit: Visit, draft: Draft, config: Config, verdict: Verdict, request: Request, name: str, told: str
) -> Model | Response:
    """Send the config; show the form again if the worker refuses it."""
    try:
        answer = await Sender(visit.source, visit.caller).send(request)
    except Away as error:
        unknown = f"{error} It is not known whether the request took effect: look at the connector first."
        return _shown(visit, draft, Verdict(answer=verdict.answer, problems=(unknown,)), status=error.status)
    except Refused as error:
        text = scrub(error.text, config, draft.declared)
        if start := draft.start.refused(text):
            known = Verdict(answer=verdict.answer)
            return _shown(visit, replace(draft, start=start), known, status=error.status)
        exists = error.status == HTTPStatus.CONFLICT and text.endswith("already exists")
        refused = Verdict(
            answer=verdict.answer,
            errors={"name": [text]} if exists else {},
            problems=() if exists else (text,),
        )
        return _shown(visit, draft, refused, status=error.status)
    offsets = mapping(answer.value).get("offsets_status")
    more = f"\n{offsets}" if isinstance(offsets, str) else ""
    result = Result(name=name, done=True, text=f"{told} (answered {answer.status}){more}")
    token = visit.memory.notices.keep(Notice(title="Config", results=(result,)))
    if await has_settled(visit.source, visit.caller, name, config) or draft.name:
        return visit.redirect("connectors", name, result=token)
    return visit.redirect("connectors", result=token)  # the connector's page might say that there is none


async def _verdict(
    visit: Visit, draft: Draft, config: Config, errors: Mapping[str, Sequence[str]] | None = None
) -> Verdict:
    """Have the worker check a config, which may take up to 90 s; its texts lose the secrets of the config."""
    plugin = _class_of(config)
    if draft.posted.problem or not plugin:
        return Verdict(problems=() if draft.posted.problem else (_NO_CLASS,), errors=errors or {})
    ask = partial(visit.source.ask, caller=visit.caller)
    problems: tuple[str, ...] = ()
    try:
        answer = (await ask("PUT", "connector-plugins", plugin, "config", "validate", body={**config})).value
    except Refused as error:
        problems = (error.text,)
        answer = await _keys_alone(visit, plugin, config)
    declared = draft.declared | password_keys_of(answer)
    told = {
        key: [scrub(text, config, declared) for text in texts] for key, texts in errors_of(answer).items()
    }
    return Verdict(
        answer=answer,
        errors={**told, **(errors or {})},
        problems=tuple(scrub(text, config, declared) for text in problems),
    )


async def _keys_alone(visit: Visit, plugin: str, config: Config) -> Json:
    """Return an answer without values for a config that the worker refuses to check."""
    try:
        keys = await visit.source.ask("GET", "connector-plugins", plugin, "config", caller=visit.caller)
    except Refused:
        return None
    return answer_of_keys(keys.value, config)


def _shown(
    visit: Visit,
    draft: Draft,
    verdict: Verdict,
    *,
    checked: bool = False,
    conflict: bool = False,
    written: Config | None = None,
    status: int = HTTPStatus.OK,
) -> Model:
    """Return the values of the form's page; with `written`, what saving changes or, on a conflict, would undo."""
    typed, declared = draft.posted.config, draft.declared | password_keys_of(verdict.answer)
    fixed = (
        "name" if draft.name else "connector.class" if draft.plugin == typed.get("connector.class") else ""
    )
    masked = hide(typed, declared)
    changes: list[Difference] | None = None
    if draft.stored is not None and written is not None:
        changes = only_changes(differences(draft.stored, written, declared))
    frame = connector_frame(visit, "config") if draft.name else {}
    name = draft.name or (typed.get("name") or "")
    request = (
        Request(method="PUT", segments=("connectors", name, "config"), body={**masked})
        if draft.name
        else _creation(draft, name, masked)
    )
    yaml = connector_yaml(
        name, typed, initial_state=draft.initial_state, initial_offsets=draft.start.body, declared=declared
    )
    return {
        **frame,
        "draft": draft,
        "name": name,
        "form": form_of(
            verdict.answer, typed, errors=verdict.errors, problems=verdict.problems, fixed={fixed}
        ),
        "json": draft.posted.text or None,
        "checked": checked and verdict.good and not draft.start.errors,
        "conflict": conflict,
        "changes": changes,
        "shown": typed_digest(typed) if changes is not None and not conflict else "",
        "states": STATES,
        "copies": [visit.curl(request), yaml],
        "start": None if draft.name or not visit.features.kraal else draft.start,
        "status_code": int(status),
    }


async def _earlier(visit: Visit, number: int) -> dict[str, str | None]:
    """Return an earlier version of the config, 1 being the latest; the worker masks its secrets."""
    found = (await get_map(visit.source, visit.caller, "connectors", visit.name, "configs")).get("earlier")
    if not isinstance(found, list) or not 0 < number <= len(found):
        raise NotFound("The worker no longer has this version of the config.")
    return config_of(found[number - 1].get("config"))


def _creation(draft: Draft, name: str, config: Config) -> Request:
    """Return the request that creates the connector."""
    body: dict[str, Json] = {"name": name, "config": {**config}}
    if draft.initial_state != STATES[0]:
        body["initial_state"] = draft.initial_state
    if draft.start.body:
        body["initial_offsets"] = draft.start.body
    return Request(method="POST", segments=("connectors",), body=body)


def _taken(visit: Visit, posted: Posted) -> Posted:
    """Return a pasted request; with a problem if this worker does not take its initial offsets."""
    lost = posted.start.rows and not visit.features.kraal
    return replace(posted, problem=NOT_SUPPORTED) if lost else posted


async def _kind_of(visit: Visit, posted: Posted) -> str:
    """Return the type of the config's plugin; empty if it is not installed."""
    plugin = _class_of(posted.config)
    found = plugin_named(plugins_of(await all_plugins(visit)), plugin) if plugin else None
    return "" if found is None else found.type


def _state(text: str) -> str:
    return text if text in STATES else STATES[0]


def _class_of(config: Config) -> str:
    return (config.get("connector.class") or "").strip()


def _view(known: Mapping[str, str], posted: Posted) -> str:
    """Return which view of the form comes next: the one that was asked for, else the one that was sent."""
    if posted.problem:
        return "json"
    asked = known.get("do", "")
    return asked if asked in ("form", "json") else ("json" if "json" in known else "form")


def _rows(known: Mapping[str, str]) -> int:
    return 8 if known.get("do") == "more" else 2


PAGES: Final[tuple[Page, ...]] = (_choose, _paste, _new, _create, _edit, _save)
