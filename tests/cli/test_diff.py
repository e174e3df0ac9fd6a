"""`backcast diff`: exit codes, the lines of a terminal, the object, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.plan.sealed.freshness import open_plan
from tests.support.commands import generic, in_process
from tests.support.deliveries import linked, row, run
from tests.support.verification import empty

HOSTILE = ["<b>bold</b>", "\u202egnp.exe", "[red]name", "x" * 200, "emoji 🎉", "=cmd|calc"]


def plan(folder: Path, name: str, rows: list[dict[str, Any]], *more: str) -> Path:
    """A plan of these rows."""
    export = folder / f"{name}.jsonl"
    export.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")
    done = in_process("plan", export, *generic(), "-o", folder / name, "--as-of", "2026-01-01", *more)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture(scope="module")
def different(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two plans with differences of every kind and with hostile names."""
    folder = tmp_path_factory.mktemp("different")
    before = [row(number) | {f"property {one}": one for one in range(30)} for number in range(60)]
    after = [dict(one) for one in before[:50]]
    for number, one in enumerate(after):
        if number < 24 or number in (26, 29):
            one["event"] = HOSTILE[number % len(HOSTILE)] if number < 24 else "[red]name"
        one |= {f"property {item}": "other" for item in range(number % 30)}
        one |= {f"{HOSTILE[number % len(HOSTILE)]} {number}": 1}
    after += [row(number) for number in range(100, 110)]
    return plan(folder, "a", before), plan(folder, "b", after, "--name", "second")


def test_equal_plans_end_with_0_and_others_with_7(call: Any, tmp_path: Path) -> None:
    """These are the exit codes of `verify`; --exit-zero is for pipelines that only show the differences. No export is
    needed."""
    rows = [row(number) for number in range(5)]
    a, same, other = (plan(tmp_path, name, some) for name, some in (("a", rows), ("b", rows), ("c", rows[:4])))
    equal = call("diff", a, same)
    assert (equal.code, "Equal: applying either plan sends the same events." in equal.out) == (0, True)
    assert call("diff", a, other).code == 7
    assert call("diff", a, other, "--exit-zero").code == 0
    assert call("diff", a, other, "--counts").code == 7
    assert call("diff", a, same, "--counts").code == 0
    (tmp_path / "b.jsonl").unlink()
    assert call("diff", other, same).code == 7


def test_merges_that_an_earlier_plan_sent_are_named(call: Any, tmp_path: Path) -> None:
    """A second plan of the same export for the same target says which plan sent the merges and how many, and `diff`
    does not count them as lost."""
    room, rows = empty(), [linked(row(number)) for number in range(30)]
    options = "--for", room.url, "--set", "anonymous_id=anonymous_id"
    first = plan(tmp_path, "first", rows, *options)
    assert run(first, room.url, key=room.key()).balanced
    made = open_plan(first)[0].events.phases["identities"]
    second = plan(tmp_path, "second", rows, *options)
    notice = f"settled_link: first: {made} merges that it sent are not planned again"
    shown = in_process("plan", tmp_path / "first.jsonl", *generic(), *options, "-o", tmp_path / "third").stdout
    assert notice in " ".join(shown.split())
    said = " ".join(call("diff", first, second).out.split())
    assert f"{made} merges of A that B leaves out, because a plan before it sent them" in said
    assert "that B does not make" not in said
    assert call("diff", first, second, "--json").json["consequences"]["merged"] == made


def test_the_object_has_the_documented_fields(call: Any, different: tuple[Path, Path]) -> None:
    """stdout is JSON and nothing else."""
    said = call("diff", *different, "--json")
    assert said.code == 7
    assert list(said.json) == ["format", "equal", "compared", "a", "b", "settings", "skips", "rejects", "phases",
                               "changed", "properties", "names", "days", "renamed", "shifts", "persons", "examples",
                               "consequences", "totals"]  # fmt: skip
    assert said.json["format"] == "backcast.diff/1"
    assert said.json["phases"]["events"] == {"a": 60, "b": 60, "same": 0, "changed": 50, "only_a": 10, "only_b": 10}
    assert said.json["consequences"]["duplicated"] == 26


@pytest.mark.parametrize("columns", ["40", "80", "160"])
def test_a_terminal_gets_40_lines_at_most_and_the_worst_first(
    call: Any, different: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """The page and the object have all lines. On a narrow terminal, where lines fold, the last line says how much was
    left out."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.chdir(different[0].parent)
    said = call("diff", *(one.name for one in different))
    lines = said.out.splitlines()
    assert "\u202e" not in said.out
    if columns == "40":
        assert (len(lines), "more lines: --html FILE" in lines[-1]) == (40, True)
    else:
        assert len(lines) <= 40
        assert any("true duplicates" in line for line in lines[:6])
        assert "[red]name" in said.out


def test_the_page_is_whole_and_escapes_every_name(call: Any, different: tuple[Path, Path], tmp_path: Path) -> None:
    """It has no script and loads nothing, and names cannot add markup."""
    page = tmp_path / "diff.html"
    assert call("diff", *different, "--html", page).code == 7
    html = page.read_text("utf-8")
    assert html.startswith("<!doctype html>")
    assert "default-src 'none'" in html
    assert "&lt;b&gt;bold" in html
    assert not [text for text in ("<b>bold", "\u202e", "<script") if text in html]
    assert html.count("<main>") == html.count("</main>") == 1


def test_what_cannot_be_compared_or_written_is_a_usage_error(call: Any, tmp_path: Path) -> None:
    """A page never overwrites another file; for a folder without a plan the error says how to make one."""
    other = tmp_path / "shop.yaml"
    other.write_text("format: x\n", "utf-8")
    a = plan(tmp_path, "a", [row(1)])
    said = call("diff", a, a, "--html", other)
    assert (said.code, other.read_text("utf-8")) == (2, "format: x\n")
    assert "exists and is another kind of file" in said.two_lines[0]
    said = call("diff", tmp_path / "none", tmp_path / "none")
    assert said.code == 2
    assert "backcast plan" in said.two_lines[1]
