"""Writes what a row says beside its event: of its ids, of its person and of groups.

None of it is part of the event, so an apply makes none of it: the text is left out there. It is read in a block of
its own, where a reading takes nothing out of the row, so that the events are the same either way; what cannot be read
is told of and spoils no event.
"""

from __future__ import annotations

from pipeline.mapper import runtime
from pipeline.mapper.changes import spread_members
from pipeline.mapper.code import Code
from pipeline.mapper.language import Call, EventRule, Mapping, Person, Place, Profiles


def write_note(code: Code, mapping: Mapping) -> None:
    """Set `note`, None where the row says nothing. `code.observing` says whether anybody asks."""
    code.line("note = None")
    if mapping.pair is None and mapping.person is None:
        return
    before = len(code.lines)
    with code.block("try:"):
        parts = [*_pair(code, mapping), *_person(code, mapping.person)]
        said = [part for part in parts if part != "None"]
        code.line(f"if {' or '.join(said) or 'False'}: note = Note({', '.join(parts)})")
    code.line("except (BadValue, MsgspecError) as error: w += (('bad_value', 'of a person: ' + str(error)),)")
    if not code.observing:
        del code.lines[before:]


def _pair(code: Code, mapping: Mapping) -> list[str]:
    if mapping.pair is None:
        return ["None", "None"]
    user = code.local("u")
    code.line(f"{user} = {code.text(mapping.pair.user).name} or None")
    other = code.local("a")
    code.line(f"{other} = None")
    with code.block(f"if {user} is not None:"):
        _write_anonymous(code, list(mapping.pair.anonymous), user, other)
    return [user, other]


def _write_anonymous(code: Code, candidates: list[Call], user: str, name: str) -> None:
    if not candidates:
        return
    found = code.text(candidates[0]).name
    code.line(f"if {found} and {found} != {user}: {name} = {found}")
    if len(candidates) > 1:
        with code.block("else:"):
            _write_anonymous(code, candidates[1:], user, name)


def _person(code: Code, person: Person | None) -> list[str]:
    if person is None:
        return []
    made = []
    for table, spreads in ((person.set, person.spread_set), (person.set_once, person.spread_set_once)):
        if not table and not spreads:
            made.append("None")
            continue
        held = {name: code.present(call).name for name, call in table.items()}
        names = [spread_members(code, spread) for spread in spreads]
        made.append(_written(code, held, names))
    if person.unset is not None:
        name = code.local("g")
        code.line(f"{name} = names_of({code.present(person.unset).name})")
        made.append(name)
    return made


def _written(code: Code, held: dict[str, str], spreads: list[str]) -> str:
    name = code.local("d")
    code.line(f"{name} = {'{}' if held or not spreads else f'{spreads[0]} or {{}}'}")
    for spread in spreads if held else spreads[1:]:
        code.line(f"if {spread}: {name}.update({spread})")
    for key, value in held.items():
        code.line(f"if {value} is not None: {name}[{key!r}] = {value}")
    return name


def notes_groups(mapping: Mapping) -> bool:
    """Whether rows say something of groups beside being events."""
    return mapping.groups is not None and mapping.groups.set is not None


def write_group_notes(code: Code, mapping: Mapping) -> None:
    """Set `of_groups`, the updates of groups that the row states beside its event."""
    if mapping.groups is None or mapping.groups.set is None:
        return
    before = len(code.lines)
    code.line("of_groups = ()")
    with code.block("try:"):
        held = code.present(mapping.groups.set).name
        code.line(f"if {held} is not None: of_groups, w = group_notes({held}, time, received, w)")
    code.line("except (BadValue, MsgspecError) as error: w += (('bad_value', 'of a group: ' + str(error)),)")
    if not code.observing:
        del code.lines[before:]


def write_updates(code: Code, mapping: Mapping) -> None:
    """Rows that say something of a person or a group and nothing else end here."""
    rules = enumerate(mapping.events.values(), 1)
    updating = [(number, rule) for number, rule in rules if rule.update or rule.group or rule.profiles]
    if not updating:
        return
    with code.block("if rule:"):
        for number, rule in updating:
            with code.block(f"if rule == {number}:"):
                if rule.update:
                    code.line("update = PersonUpdate(who, time, note, received, junk, w)")
                    if code.observing and notes_groups(mapping):
                        code.line("if of_groups: return [update, *(more or ()), *of_groups]")
                    code.line("return update if more is None else [update, *more]")
                elif rule.profiles is not None:
                    _write_profiles(code, rule.profiles, mapping.event.place)
                else:
                    _write_group(code, rule, mapping.pair is not None)


def _write_group(code: Code, rule: EventRule, paired: bool) -> None:
    group = rule.group
    assert group is not None
    if group.open is not None:
        code.line(f"updates = group_updates({code.present(group.open).name}, time, received, w)")
    else:
        kind, key = (code.text(call).name if call is not None else "None" for call in (group.type, group.key))
        held = code.present(group.set).name if group.set is not None else "None"
        code.line(f"updates = group_update({kind}, {key}, {held}, time, received, w)")
    if paired and code.observing:
        code.line("if note is not None: updates = with_pair(updates, who, note, time, received)")
    code.line("return updates if more is None else [*updates, *more]")


def _write_profiles(code: Code, profiles: Profiles, place: Place) -> None:
    each = code.present(profiles.each).name if profiles.each is not None else "None"
    own = [
        code.present(Call("ref", {"ref": "/" + name.replace("~", "~0").replace("/", "~1")}, place)).name
        for name in (profiles.id, profiles.properties)
    ]
    reader = runtime.Profiles(profiles.id, profiles.properties, profiles.leave, profiles.rename)
    code.line(f"return {code.const(reader)}({each}, {', '.join(own)}, time, received)")
