"""Citations in the code and in the documents lead to headings that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import PACKAGES

ROOT = Path(__file__).parents[2]
CODE = ("pipeline", "tests", "mappings", "sample_data", "benchmarks")
SUFFIXES = {".py", ".c", ".h", ".yaml", ".md"}

WRAP = r"(?:[ \t]|\n[ \t]*(?:#|//|\*)?[ \t]*)"
"""A space, or the end of a line and the indentation of the next line of a comment."""

CITATION = re.compile(rf"\b(?P<page>docs/[a-z]+/[\w-]+\.md)\b(?P<anchors>#[\w-]+(?:,{WRAP}?#[a-z][\w-]*)*)?")
"""`docs/know/service.md#persons, #merges`: a page, or a page and the anchors of its headings."""

ABSENT = re.compile(
    rf"\b(?:service-behaviour|service-api|export-formats|(?:[Ll]aws?|DESIGN|performance|peers,?{WRAP}lesson){WRAP}\d)"
    rf"|\bpeers{WRAP}\d+\.\d|\bDESIGN\.md|\bstyle\.md|\bfacts{WRAP}?§"
    rf"|(?<=[a-z] )\([1-9]\.\d[\d.]*(?:,{WRAP}[1-9][\d.]*)*\)"
)
"""How documents outside the repository were cited once, by name or only by the number of a section."""

EXPLICIT = re.compile(r"^\((?P<anchor>[\w-]+)\)=\n+#{1,6} \S", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)
PATH = re.compile(r"`(?P<path>(?:pipeline|tests|mappings|sample_data|benchmarks|docs)/[\w./-]*)`")


@cache
def anchors(page: str) -> frozenset[str]:
    """The anchors of a page: those before a heading, and those that the site derives from its words."""
    text = (ROOT / page).read_text()
    derived = (re.sub(r"[^\w -]", "", heading["text"].lower()).replace(" ", "-") for heading in HEADING.finditer(text))
    return frozenset(found["anchor"] for found in EXPLICIT.finditer(text)) | frozenset(derived)


def faults(text: str) -> Iterator[str]:
    """The citations in a file that lead nowhere."""
    for found in CITATION.finditer(text):
        if not (ROOT / found["page"]).is_file():
            yield f"{found['page']} does not exist"
            continue
        for anchor in re.findall(r"#([\w-]+)", found["anchors"] or ""):
            if anchor not in anchors(found["page"]):
                yield f"{found['page']} has no heading #{anchor}"
    for found in ABSENT.finditer(text):
        yield f"{' '.join(found[0].split())!r} cites a document that is not in the repository"


def texts(*places: str) -> Iterator[tuple[str, str]]:
    """The files below these places with a suffix of `SUFFIXES`: the path from the root, and the content."""
    for place in places:
        for path in sorted([ROOT / place, *(ROOT / place).rglob("*")]):
            if path.suffix in SUFFIXES and "node_modules" not in path.parts and path != Path(__file__):
                yield str(path.relative_to(ROOT)), path.read_text()


@pytest.mark.parametrize("folder", [*CODE, "docs", "README.md"])
def test_every_citation_leads_to_a_heading(folder: str) -> None:
    """Pages exist, and so do their headings; documents outside the repository are not cited."""
    assert [f"{name}: {fault}" for name, text in texts(folder) for fault in faults(text)] == []


def test_paths_and_packages_of_the_documents_are_those_of_the_code() -> None:
    """What a page names in backquotes exists; the table of packages is in the order that `tests/test_architecture.py`
    enforces."""
    named = {(page, found["path"]) for page, text in texts("docs") for found in PATH.finditer(text)}
    assert sorted(f"{page}: {path}" for page, path in named if not (ROOT / path).exists()) == []
    page = (ROOT / "docs/change/architecture.md").read_text()
    table = page.partition("(packages)=")[2].partition("(processes)=")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert tuple(name for row in rows for name in re.findall(r"`(\w+)`", row)) == PACKAGES


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("(docs/know/service.md#persons, #nowhere)", "docs/know/service.md has no heading #nowhere"),
        ("(docs/know/service.md#persons,\n    # #nowhere)", "docs/know/service.md has no heading #nowhere"),
        ("(docs/know/nothing.md#persons)", "docs/know/nothing.md does not exist"),
        ("(export-formats 2.3)", "'export-formats' cites a document that is not in the repository"),
        ("(peers,\n    # lesson 5)", "'peers, # lesson 5' cites a document that is not in the repository"),
        ("a list (2.5, 8)", "'(2.5, 8)' cites a document that is not in the repository"),
        ("as law 6 asks", "'law 6' cites a document that is not in the repository"),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, fault: str) -> None:
    """Also if it is the second anchor of a page, or is wrapped in a comment."""
    assert list(faults(text)) == [fault]
