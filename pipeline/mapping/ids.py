"""Writes who a row is about: the distinct_id, and the links between ids that the row shows."""

from __future__ import annotations

from pipeline import schema
from pipeline.mapping.code import Code
from pipeline.mapping.language import Call, EventRule, LinkRule, Mapping


def write_who(code: Code, mapping: Mapping) -> None:
    extra = frozenset(word.lower() for word in mapping.distinct_id.junk)
    bad = "who is None or is_junk(who)"
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
            link = _link(code, rule)
            with code.block(f"if {link[0]}:"):
                code.line(f"more = [{link[1]}] if more is None else [*more, {link[1]}]")


def _link(code: Code, rule: LinkRule) -> tuple[str, str]:
    into = code.text(rule.distinct_id).name
    other = code.text(rule.other).name
    sound = "" if into == "who" else f" and ({into} == who or not is_junk({into}))"
    test = f"{into} and {other} and {into} != {other}{sound} and not is_junk({other})"
    return test, f"Link({rule.kind!r}, {into}, {other}, time if time.__class__ is int else None)"


def write_rule_links(code: Code, mapping: Mapping) -> None:
    """Rows that state a merge and nothing else end here; those that also say something of a person go on."""
    linking = [(number, rule) for number, rule in enumerate(mapping.events.values(), 1) if rule.link is not None]
    if not linking:
        return
    with code.block("if rule:"):
        for number, rule in linking:
            _write_rule_link(code, number, rule)


def _write_rule_link(code: Code, number: int, rule: EventRule) -> None:
    if rule.link is not None:
        with code.block(f"if rule == {number}:"):
            test = code.test(rule.link.when) if rule.link.when is not None else "True"
            with code.when(test):
                holds, made = _link(code, rule.link)
                if rule.update == "person":
                    code.line(f"more = [{made}] if {holds} else None")
                    code.line("if more is not None and '$set' not in p and '$set_once' not in p: return more[0]")
                else:
                    code.line(f"if {holds}: return {made}")
                    code.line(f"return {code.const(schema.Skip('incomplete_merge'))}")
