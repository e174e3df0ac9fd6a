"""`--report sarif=FILE`: SARIF 2.1.0, which code hosts show beside the lines of a mapping repository.

A rule for each check, code of rejected rows and code of warnings, and a result for each that was found. A row of an
export is given as a line of its file, and its byte offset in the decompressed file as a property.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from pipeline.report.check_files import check_file
from pipeline.report.check_files.checked import Checked, Place, Result

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"stop": "error", "warning": "warning", "notice": "note", "ok": "none"}


@check_file("sarif", begins=(b"{",))
def sarif(checked: Checked) -> bytes:
    """The file as UTF-8."""
    plan = checked.plan
    groups = (("check", checked.checks), ("reject", checked.rejects), ("warning", checked.warnings))
    rules: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for group, some in groups:
        for result in some:
            if result.level != "ok":
                results.append(_result(f"{group}/{result.name}", len(rules), result))
            rules.append(_rule(f"{group}/{result.name}", result))
    driver = {"name": "backcast", "version": metadata.version("backcast"), "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": plan.ready}],
        "results": results,
        "properties": {
            "digest": plan.digest, "verdict": plan.verdict, "rows": msgspec.to_builtins(plan.rows),
            "events": plan.events.made,
        },
    }  # fmt: skip
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=1) + b"\n"


def _rule(name: str, result: Result) -> dict[str, Any]:
    help_ = {"help": {"text": result.remedy}} if result.remedy else {}
    return {"id": name, "name": result.name, "shortDescription": {"text": result.about or result.name}, **help_}


def _result(name: str, index: int, result: Result) -> dict[str, Any]:
    text = result.sentence + (f" (try: {result.remedy})" if result.remedy else "")
    place = result.place
    located = {"locations": [{"physicalLocation": _location(place)}]} if place is not None else {}
    row = {"row": place.line, "offset": place.offset} if place is not None and _is_row(place) else {}
    return {
        "ruleId": name,
        "ruleIndex": index,
        "level": LEVELS.get(result.level, "warning"),
        "message": {"text": text or name},
        **located,
        "occurrenceCount": max(result.count, 1),
        "properties": {"examples": list(result.examples), **row},
    }


def _is_row(place: Place) -> bool:
    return not place.of_mapping and place.line > 0


def _location(place: Place) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": uri_of(place.file)}}
    if place.line:
        location["region"] = {"startLine": place.line}
    return location


def uri_of(file: str) -> str:
    """A path as a reference: a relative one stays so, since code hosts look it up in the repository."""
    encoded = quote(file.encode("utf-8", "surrogateescape"), safe="/!@$&'()*+,;=~")
    return f"file://{encoded}" if PurePath(file).is_absolute() else encoded
