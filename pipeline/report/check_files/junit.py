"""`--report junit=FILE`: JUnit XML as Jenkins, GitLab and others read it; valid by the schema of Jenkins.

A test case for each check, for each code of rejected rows and for each code of warnings. One of the level `stop` has
failed; what only warns has passed, and its text is in `system-out`, since the format has nothing between the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as ET

from pipeline.report.check_files import check_file
from pipeline.report.check_files.checked import Checked, Result

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot contain."""


@check_file("junit", begins=(b"<?xml", b"<testsuite"))
def junit(checked: Checked) -> bytes:
    """The file as UTF-8."""
    plan = checked.plan
    properties = {
        "digest": plan.digest,
        "verdict": plan.verdict,
        "tool": plan.tool,
        "mapping": plan.mapping.name,
        "rows.read": str(plan.rows.read),
        "rows.rejected": str(plan.rows.rejected),
        "events.made": str(plan.events.made),
    }
    groups = (("checks", checked.checks), ("rejects", checked.rejects), ("warnings", checked.warnings))
    results = [result for _, some in groups for result in some]
    root = ET.Element("testsuites", {"name": "backcast plan", **_counts(results)})
    for number, (name, some) in enumerate(groups):
        suite = ET.SubElement(root, "testsuite", {"name": f"backcast.{name}", **_counts(some), "skipped": "0"})
        if number == 0:
            _add_properties(suite, properties)
        for result in some:
            _add_case(suite, name, result)
    ET.indent(root)
    body: bytes = ET.tostring(root, "utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + body + b"\n"


def _counts(results: Sequence[Result]) -> dict[str, str]:
    failed = sum(result.level == "stop" for result in results)
    return {"tests": str(len(results)), "failures": str(failed), "errors": "0"}


def _add_properties(suite: ET.Element, properties: Mapping[str, str]) -> None:
    section = ET.SubElement(suite, "properties")
    for name, value in properties.items():
        ET.SubElement(section, "property", {"name": name, "value": _text(value)})


def _add_case(suite: ET.Element, group: str, result: Result) -> None:
    case = ET.SubElement(suite, "testcase", {"classname": f"backcast.{group}", "name": _text(result.name)})
    if result.level == "ok":
        return
    text = _text("\n".join(_lines(result)))
    if result.level == "stop":
        ET.SubElement(case, "failure", {"type": "stop", "message": _text(text.partition("\n")[0])}).text = text
    else:
        ET.SubElement(case, "system-out").text = f"{result.level}: {text}"


def _lines(result: Result) -> Iterable[str]:
    yield result.sentence
    yield from (f"- {example}" for example in result.examples)
    if result.remedy:
        yield f"Try: {result.remedy}"


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
