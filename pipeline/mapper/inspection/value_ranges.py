"""What a value of a mapping can be in any row, judging by the mapping alone."""

from __future__ import annotations

from pipeline.mapper.language.sections import Call, Mapping
from pipeline.mapper.program.references import holes_of
from pipeline.validator.placeholder_ids import is_placeholder


def is_never_missing(call: Call) -> bool:
    """Whether a value has text in every row."""
    given = call.arguments
    match call.verb:
        case "const":
            return True
        case "json":
            return bool(given["json"] != "null")
        case "word":
            return "default" in given
        case "template":
            return not holes_of(given["template"])
        case "lookup":
            otherwise = given.get("else", "missing")
            return (
                is_never_missing(otherwise if isinstance(otherwise, Call) else given["lookup"])
                and otherwise != "missing"
            )
        case "first":
            return any(map(is_never_missing, given["first"]))
        case "when":
            return "else" in given and is_never_missing(given["then"]) and is_never_missing(given["else"])
        case "lower" | "upper" | "hash":
            return is_never_missing(given[call.verb])
        case _:
            return False


def is_never_placeholder(call: Call) -> bool:
    return call.verb == "const" and not is_placeholder(call.arguments["const"])


def can_be(call: Call, text: str, mapping: Mapping) -> bool:
    """Whether a value can equal a string; True if that is unknown."""
    given = call.arguments
    match call.verb:
        case "const":
            return bool(given["const"] == text)
        case "lower":
            return text == text.lower()
        case "upper":
            return text == text.upper()
        case "join" | "url" | "country" | "referring_domain" | "browser_name" | "os_name" if text == "":
            return False
        case "device_type":
            return text in ("Desktop", "Mobile", "Tablet")
        case "lookup":
            otherwise = given.get("else", "missing")
            table = given.get("in", mapping.tables.get(given.get("table", "")))
            if table is None or text in table.values():
                return True
            if otherwise == "keep":
                return can_be(given["lookup"], text, mapping)
            return isinstance(otherwise, Call) and can_be(otherwise, text, mapping)
        case "first":
            return any(can_be(one, text, mapping) for one in given["first"])
        case "when":
            return any(can_be(given[branch], text, mapping) for branch in ("then", "else") if branch in given)
        case "unless":
            return text not in given["unless"] and can_be(given["of"], text, mapping)
        case _:
            return True
