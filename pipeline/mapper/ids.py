"""Writes who a row is about: the distinct_id, and the links between ids that the row shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.mapper.code import Code
from pipeline.mapper.language import Call, EventRule, LinkRule, Mapping


def write_who(code: Code, mapping: Mapping) -> None:
    extra = frozenset(word.lower() for word in mapping.distinct_id.junk)
    bad = "who is None or is_placeholder(who)"
    if extra:
        bad += f" or who.lower() in {code.const(extra)}"
    code.line("junk = False")
    code.line("passed = None")
    _write_candidate(code, list(mapping.distinct_id.first), bad)
    with code.block("if passed is not None:"):
        code.line("if who is None: junk = True")
        code.line("else: w += (('junk_distinct_id', passed),)")


def _write_candidate(code: Code, candidates: list[Call], bad: str) -> None:
    code.line(f"who = {code.text(candidates[0]).name}")
    with code.block(f"if {bad}:"):
        code.line("if who and passed is None and not who.isspace(): passed = who")
        if len(candidates) > 1:
            _write_candidate(code, candidates[1:], bad)
        else:
            code.line("who = None")


def write_links(code: Code, mapping: Mapping) -> None:
    for rule in mapping.links:
        test = code.test(rule.when) if rule.when is not None else "True"
        with code.when(test):
            links = _links(code, rule).name
            code.line(f"if {links}: more = {links} if more is None else [*more, *{links}]")


class _Links(NamedTuple):
    """The name of the list of links that a row states, None or empty when it lacks a sound id; and the call that says
    what it lacks."""

    name: str
    lack: str


def _links(code: Code, rule: LinkRule) -> _Links:
    name = code.local("l")
    time = "time if time.__class__ is int else None"
    if rule.of is not None:
        value = code.value(rule.of).name
        code.line(f"{name} = links_of({rule.kind!r}, {value}, {time})")
        return _Links(name, f"incomplete_list({value})")
    into = _first_sound(code, rule.distinct_id)
    other = _first_sound(code, rule.other, into)
    lack = f"incomplete({into}, {other})"
    if rule.kind == "person":
        version = code.text(rule.version).name if rule.version is not None else "None"
        into = f"person_number({into}, {version})"
        sound = f"{other} and not is_placeholder({other})"
        code.line(f"{name} = [Link('person', {into}, {other}, {time})] if {sound} and {into} else None")
        return _Links(name, lack)
    sound = "" if into == "who" else f" and ({into} == who or not is_placeholder({into}))"
    test = f"{into} and {other} and {into} != {other}{sound} and not is_placeholder({other})"
    code.line(f"{name} = [Link({rule.kind!r}, {into}, {other}, {time})] if {test} else None")
    return _Links(name, lack)


def _first_sound(code: Code, candidates: Sequence[Call], beside: str = "") -> str:
    """Emit the first candidate that names somebody, and somebody else than `beside`; the last where none does."""
    found, *others = candidates
    if not others:
        return code.text(found).name
    name = code.local("i")
    _write_sound(code, name, candidates, f" or {name} == {beside}" if beside else "")
    return name


def _write_sound(code: Code, name: str, candidates: Sequence[Call], more: str) -> None:
    code.line(f"{name} = {code.text(candidates[0]).name}")
    if len(candidates) > 1:
        with code.block(f"if not {name} or is_placeholder({name}){more}:"):
            _write_sound(code, name, candidates[1:], more)


def write_rule_links(code: Code, mapping: Mapping) -> None:
    """Rows that state a merge and nothing else end here; those that also say something of a person go on.

    A record of a merge that does not name two ids is a merge that is lost: it is told as a warning.
    """
    linking = [(number, rule) for number, rule in enumerate(mapping.events.values(), 1) if rule.link is not None]
    if not linking:
        return
    with code.block("if rule:"):
        for number, rule in linking:
            _write_rule_link(code, number, rule)


def _write_rule_link(code: Code, number: int, rule: EventRule) -> None:
    assert rule.link is not None
    with code.block(f"if rule == {number}:"):
        test = code.test(rule.link.when) if rule.link.when is not None else "True"
        with code.when(test):
            links, lack = _links(code, rule.link)
            if rule.update != "person":
                both = f"[*(more or ()), *{links}]"
                code.line(f"if {links}: return {links}[0] if more is None and len({links}) == 1 else {both}")
                code.line(f"return {lack} if more is None else [*more, {lack}]")
                return
            code.line(f"if {links}: more = {links} if more is None else [*more, *{links}]")
            if rule.link.when is not None:
                code.line(f"else: w += ({lack},)")
