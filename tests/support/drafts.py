"""Drafts of mappings for small exports, and what their mappings give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.extractors import open_source
from pipeline.mapper.compiler import compile_mapping
from pipeline.mapper.inspection.cases import describe, run_cases
from pipeline.mapper.language import sections as language
from pipeline.mapper.language.loader import parse
from pipeline.models import SealedOptions
from pipeline.survey.columns import columns_of
from pipeline.survey.draft import Draft, draft_mapping
from pipeline.survey.recognition import MOST_KEYS, SAMPLE_ROWS
from pipeline.survey.roles.ids import keys_in
from pipeline.survey.tables import largest_table, records_of, unique_columns
from tests.support.export_shapes import Shape, lines

AS_OF = 4_102_444_800_000_000


def written(folder: Path, shape: Shape) -> Path:
    path = folder / shape.file
    path.write_text(shape.text, "utf-8")
    return path


def log(folder: Path, rows: Iterable[dict[str, Any]]) -> Path:
    """A file of these rows, in the place of the one before."""
    path = folder / "log.jsonl"
    path.write_text(lines(rows), "utf-8")
    return path


def drafted(*paths: Path, answers: Mapping[str, str] | None = None) -> Draft:
    """The draft of an export, whether or not a shipped mapping recognises it."""
    found = largest_table(open_source([str(path) for path in paths]))
    assert found is not None
    names = [column.steps[0] for column in keys_in(columns_of(found.records).values())][:MOST_KEYS]
    return draft_mapping(found, unique_columns(found.parts, names, SAMPLE_ROWS), answers)


def checked(draft: Draft) -> language.Mapping:
    """The mapping of a draft: it loads, and each of its cases passes."""
    mapping = parse(draft.text, "draft")
    assert [outcome.differences for outcome in run_cases(mapping) if not outcome.passed] == []
    assert mapping.cases
    return mapping


def events_of(draft: Draft, path: Path) -> list[dict[str, Any]]:
    """What a draft gives for each row."""
    mapper = compile_mapping(parse(draft.text, "draft"), SealedOptions(as_of=AS_OF))
    found = []
    for part in open_source([str(path)]).parts:
        for record, _ in records_of(part):
            outcome = mapper.map_row({name: value for name, value in record.items() if value != ""})
            assert not isinstance(outcome, list)
            found.append(describe(outcome))
    return found
