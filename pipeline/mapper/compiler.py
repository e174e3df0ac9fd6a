"""Turns a mapping into one fast function, by writing its text and compiling that.

Straight-line text costs a row only what its own mapping needs: no table is walked, no verb is looked up.
`Mapper.source` keeps the text for whoever wants to read it. Within it `row` is the record, `p` the opened
properties, `w` the warnings; all reading comes before the first change, so sections never see each other's work.
"""

from __future__ import annotations

import difflib
import os
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

import msgspec

from pipeline import models, uuids, values
from pipeline.errors import MappingError, UsageError
from pipeline.mapper import changes, groups, ids, notes, runtime, verbs
from pipeline.mapper.clocks import write_clocks
from pipeline.mapper.code import Code
from pipeline.mapper.kinds import FAMILIES
from pipeline.mapper.language import Mapping
from pipeline.mapper.members_code import MembersCode
from pipeline.models import MapperResult
from pipeline.native import AVAILABLE, native
from pipeline.options import SealedOptions
from pipeline.timestamps import BadTime, ZoneClock, format_utc, read_iso
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.values import Record

MapRow = Callable[[Record], "MapperResult | list[MapperResult]"]

_ALWAYS_KNOWN = ("source", "header")


@dataclass(frozen=True, slots=True)
class Mapper:
    """A compiled mapping. `map_row` may change the record it is given.

    `space` is the namespace of the tool's keys and `hasher` makes uuids in it; `opens` are columns that a reader may
    hand over as opened objects (it saves the mapper the work); `zone_evidence`
    says that UnvalidatedEvents carry `wall`, so the zone can be
    proved; `hash_fingerprint` tells which secret hashed, "" when none did; `source` is the compiled text.
    `map_members` does the same for rows that are `pipeline.native` Members; None where there is no such part, or it
    does not suit the mapping. `observe_row` and `observe_members` give the same events with their notes, for a plan;
    `unsets` says whether a note may take a property of a person away, `blanks` whether a blank cell of a delimited file
    is a value.
    """

    tool: str
    space: uuid.UUID
    hasher: uuids.Hasher
    opens: tuple[str, ...]
    map_row: MapRow
    zone_evidence: bool
    hash_fingerprint: str
    source: str
    observe_row: MapRow
    map_members: MapRow | None = None
    observe_members: MapRow | None = None
    unsets: bool = False
    blanks: bool = False


def compile_mapping(mapping: Mapping, options: SealedOptions) -> Mapper:
    """Compile for these options. Raises UsageError for settings that lack, or that the mapping does not know, and
    MappingError for what only shows now, such as a table that is not there."""
    _check_settings(mapping, options)
    try:
        return _compile(mapping, options)
    except (SyntaxError, RecursionError, MemoryError) as error:
        # Python's own limits, where the loader's did not keep a mapping below them.
        file, line, column = mapping.event.place
        raise MappingError(
            f"the mapping is too large to compile ({error})", file=file, line=line, column=column,
            hint="write it with fewer nested values and conditions",
        ) from None  # fmt: skip


def check_mapping(mapping: Mapping) -> None:
    """Compile a mapping as far as that goes without the settings of a plan. Raises MappingError."""
    given = {name: next(iter(one.one_of), name) for name, one in mapping.settings.items()}
    try:
        compile_mapping(mapping, SealedOptions(as_of=0, settings=given))
    except MappingError:
        raise
    except UsageError:
        return  # a setting or a secret that only an operator can give


def _compile(mapping: Mapping, options: SealedOptions) -> Mapper:
    clock = ZoneClock(options.zones)
    code = _written(mapping, options, observing=False)
    source = _text(code)
    map_row = _compiled(code, source, clock)
    watching = _written(mapping, options, observing=True)
    observe_row = _compiled(watching, _text(watching), clock)
    map_members = _for_members(mapping, options, clock, map_row, observing=False)
    observe_members = _for_members(mapping, options, clock, observe_row, observing=True)
    if mapping.decoder is not None:
        decode = FAMILIES["decoder"][mapping.decoder.verb].emit(mapping.decoder, options)
        map_row, observe_row = _decoded(decode, map_row), _decoded(decode, observe_row)
    space = uuids.namespace(mapping.tool, options.settings.get("source", ""))
    if _as_importer(mapping, options):
        space = uuids.POSTHOG_MIXPANEL
    return Mapper(
        tool=mapping.tool,
        space=space,
        hasher=uuids.Hasher(space),
        opens=_opens(mapping),
        map_row=map_row,
        zone_evidence=any(clock.zone == "project" for clock in mapping.time),
        hash_fingerprint=runtime.hash_fingerprint(os.environ[verbs.HASH_KEY]) if code.used_hash else "",
        source=source,
        observe_row=observe_row,
        map_members=map_members,
        observe_members=observe_members,
        unsets=mapping.person is not None and mapping.person.unset is not None,
        blanks=mapping.blanks.in_cells,
    )


def _written(mapping: Mapping, options: SealedOptions, *, observing: bool) -> Code:
    code = Code(mapping.tool, options, mapping.tables, open_row=mapping.properties.open is None)
    code.depth, code.observing = 2, observing
    _write(code, mapping)
    return code


def _text(code: Code) -> str:
    head = ["def map_row(row):", "    w = ()", "    try:"]
    foot = ["    except (BadValue, MsgspecError) as error:", "        return RejectReason('bad_value', str(error))", ""]
    return "\n".join([*head, *code.lines, *foot])


def _compiled(code: Code, source: str, clock: ZoneClock, **more: Any) -> MapRow:
    names: dict[str, Any] = {**_NAMES, **code.constants, **more}
    names["displaced"] = runtime.CollisionRenamer(code.tool)
    names["to_utc"], names["offsets"] = clock.to_utc, clock.offsets
    exec(_code_of(source, code.tool), names)
    map_row: MapRow = names["map_row"]
    return map_row


@lru_cache(maxsize=64)
def _code_of(source: str, tool: str) -> CodeType:
    """Python's compiler takes most of the time that a mapping takes, and mostly the text is one it has seen."""
    return _interned(compile(source, f"<mapping {tool}>", "exec"))


def _interned(code: CodeType) -> CodeType:
    """The same code, whose texts are the very objects that names of members are."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, str):
            constants.append(sys.intern(constant))
        else:
            constants.append(_interned(constant) if isinstance(constant, CodeType) else constant)
    return code.replace(co_consts=tuple(constants))


def _for_members(
    mapping: Mapping, options: SealedOptions, clock: ZoneClock, map_row: MapRow, *, observing: bool
) -> MapRow | None:
    opens = _opens(mapping)
    if not AVAILABLE or mapping.decoder is not None or (mapping.properties.open is not None and not opens):
        return None
    code = MembersCode(mapping.tool, options, mapping.tables, mapping.properties.open is None, "".join(opens))
    code.depth, code.observing = 2, observing
    _write(code, mapping)
    if not code.suits:
        return None
    return _compiled(code, _text(code), clock, Members=native.Members, map_dict=map_row)


def _opens(mapping: Mapping) -> tuple[str, ...]:
    held = mapping.properties.open
    if held is None or mapping.decoder is not None or held.verb != "ref" or held.given["ref"].count("/") != 1:
        return ()
    return (held.given["ref"][1:],)


_NAMES: dict[str, Any] = {
    "BadTime": BadTime,
    "BadValue": values.BadValue,
    "UnvalidatedEvent": models.UnvalidatedEvent,
    "RejectReason": models.RejectReason,
    "Link": models.Link,
    "Note": models.Note,
    "PersonUpdate": models.PersonUpdate,
    "MsgspecError": msgspec.MsgspecError,
    "NULL": values.NULL,
    "Raw": msgspec.Raw,
    "Skip": models.Skip,
    "TRUNCATED": runtime.TRUNCATED,
    "add_groups": groups.add_groups,
    "clean_uuid": runtime.clean_uuid,
    "decode_int": msgspec.json.Decoder(int).decode,
    "decode_object": msgspec.json.Decoder(dict[str, msgspec.Raw]).decode,
    "decode_text": msgspec.json.Decoder(str).decode,
    "encode": runtime.encode,
    "epoch_of": runtime.epoch_of,
    "format_utc": format_utc,
    "group_notes": groups.group_notes,
    "group_update": groups.group_update,
    "group_updates": groups.group_updates,
    "incomplete": runtime.incomplete,
    "incomplete_list": runtime.incomplete_list,
    "is_placeholder": is_placeholder,
    "item_of": runtime.item_of,
    "links_of": runtime.links_of,
    "members_of": runtime.members_of,
    "names_of": runtime.names_of,
    "opened": runtime.opened,
    "own_groups": groups.own_groups,
    "person_number": runtime.person_number,
    "read_form": runtime.read_form,
    "read_iso": read_iso,
    "renamed": runtime.renamed,
    "session_of": runtime.session_of,
    "text_of": runtime.text_of,
    "url_part": runtime.url_part,
    "with_pair": runtime.with_pair,
}
"""The names that the text of a mapper knows."""


def _check_settings(mapping: Mapping, options: SealedOptions) -> None:
    known = tuple(dict.fromkeys((*_ALWAYS_KNOWN, *mapping.settings)))
    for name, given in options.settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"the mapping {mapping.tool} knows no setting {name!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"it knows: {', '.join(known)}",
            )
        allowed = mapping.settings[name].one_of if name in mapping.settings else ()
        if allowed and given and given not in allowed:
            said = f"--set {name}={allowed[0]}" if len(allowed) == 1 else f"one of: {', '.join(allowed)}"
            raise UsageError(f"--set {name}={given} is unknown to {mapping.tool}", hint=f"leave it out, or use {said}")


def _as_importer(mapping: Mapping, options: SealedOptions) -> bool:
    if mapping.key is None or mapping.key.posthog is None:
        return False
    return options.settings.get("uuid", "") == "posthog"


def _decoded(decode: Callable[[Record], list[Record]], map_row: MapRow) -> MapRow:
    def map_rows(row: Record) -> MapperResult | list[MapperResult]:
        try:
            records = decode(row)
        except (values.BadValue, msgspec.MsgspecError) as error:
            return models.RejectReason("bad_value", str(error))
        if not records:
            return models.Skip("empty_row")
        outcomes: list[MapperResult] = []
        for record in records:
            made = map_row(record)
            if isinstance(made, list):
                outcomes.extend(made)
            else:
                outcomes.append(made)
        return outcomes

    return map_rows


# --- the text, from top to bottom -------------------------------------------------------------------------


def _write(code: Code, mapping: Mapping) -> None:
    changes.plan_changes(code, mapping)
    _write_open(code, mapping)
    for rule in mapping.skip:
        with code.block(f"if {code.test(rule.when)}:"):
            code.line(f"return {code.const(models.Skip(rule.code, rule.warn))}")
    code.numbers |= {
        clock.source.given["ref"]
        for clock in (*mapping.time, *mapping.received)
        if clock.source.verb == "ref" and clock.unit not in ("iso", "format")
    }
    for part in mapping.key.of if mapping.key is not None else ():
        code.text(part)
    _write_event(code, mapping)
    write_clocks(code, mapping)
    _write_key(code, mapping)
    ids.write_who(code, mapping)
    ids.write_links(code, mapping)
    written = changes.read_changes(code, mapping)
    ids.write_rule_links(code, mapping)
    notes.write_note(code, mapping)
    notes.write_group_notes(code, mapping)
    notes.write_updates(code, mapping)
    extras = _read_extras(code, mapping)
    changes.write_changes(code, mapping, written)
    code.line(
        f"draft = UnvalidatedEvent(event, who, time, p, key, uuid, received, wall, junk, w{', note' * code.observing})"
    )
    for text in extras:
        code.line(text)
    # What is said of groups comes last: the events of a row are numbered by their places, here as in an apply.
    if code.observing and notes.notes_groups(mapping):
        code.line("if of_groups: return [draft, *(more or ()), *of_groups]")
    code.line("if more is None: return draft")
    code.line("return [draft, *more]")


def _write_open(code: Code, mapping: Mapping) -> None:
    source = mapping.properties.open
    if isinstance(code, MembersCode):
        if source is None:
            code.line("p = row")
        else:
            code.named_columns.add(code.opened_column)
            code.line(f"p = row.get({code.opened_column!r})")
            code.line("if p.__class__ is not Members: return map_dict(row.as_dict())")
        code.line("more = None")
        return
    if source is None:
        code.line("p = row")
        with code.block("if None in p.values():"):
            code.line("p = {k: v for k, v in p.items() if v is not None}")
    else:
        held = code.value(source).name
        code.line(f"if {held}.__class__ is dict: p = {held}")
        with code.block(f"elif {held}.__class__ is Raw:"):
            code.line(f"try: p = decode_object({held})")
            code.line(f"except MsgspecError: p = opened({held}) or {{}}")
        with code.block("else:"):
            code.line(f"p = opened({held}) or {{}}")
    code.line("pop = p.pop")
    code.line("get = p.get")
    code.line("more = None")


def _write_event(code: Code, mapping: Mapping) -> None:
    code.line(f"event = {code.text(mapping.event).name}")
    if not mapping.events:
        return
    hits: dict[str, tuple[str, int] | models.Skip] = {}
    for number, (name, rule) in enumerate(mapping.events.items(), 1):
        if rule.skip:
            hits[name] = models.Skip(rule.skip, rule.warn)
        else:
            hits[name] = (rule.name or name, number)
    code.line(f"hit = {code.const(hits)}.get(event)")
    with code.block("if hit is None:"):
        if mapping.unlisted == "reject":
            code.line("if event is not None: return RejectReason('unmapped_event', event)")
        code.line("rule = 0")
    with code.block("else:"):
        if any(rule.skip for rule in mapping.events.values()):
            code.line("if hit.__class__ is Skip: return hit")
        code.line("event, rule = hit")


def _write_key(code: Code, mapping: Mapping) -> None:
    code.line(f"uuid = clean_uuid({code.text(mapping.uuid).name})" if mapping.uuid else "uuid = None")
    if mapping.key is None:
        code.line("key = None")
        return
    if _as_importer(mapping, code.options) and mapping.key.posthog is not None:
        needed = code.text(mapping.key.posthog).name
        code.line(f"key = {needed} if {needed} and not {needed}.isspace() else None")
        return
    parts = [code.text(part).name for part in mapping.key.of]
    needs = [code.text(part).name for part in mapping.key.needs]
    whole = "\\x1f".join("{" + part + " or ''}" for part in parts)
    tests = " and ".join(f"{need} and not {need}.isspace()" for need in needs) or "True"
    code.line(f'key = f"{whole}" if {tests} else None')


def _read_extras(code: Code, mapping: Mapping) -> list[str]:
    texts: list[str] = []
    for number, extra in enumerate(mapping.also, 1):
        held = code.local("x")
        code.line(f"{held} = None")
        with code.when(code.test(extra.when) if extra.when is not None else "True"):
            name = code.text(extra.event).name
            members = [(key, code.present(call).name) for key, call in extra.properties.items()]
            pairs = ", ".join(f"({key!r}, {member})" for key, member in members)
            code.line(f"{held} = {name}, {{k: v for k, v in ({pairs}{',' if pairs else ''}) if v is not None}}")
        marked = f"key and key + {uuids.SEPARATOR + 'also' + str(number)!r}"
        draft = f"UnvalidatedEvent({held}[0], who, time, {held}[1], {marked}, None, received, None, junk)"
        texts.append(f"if {held} is not None: more = [*(more or ()), {draft}]")
    return texts
