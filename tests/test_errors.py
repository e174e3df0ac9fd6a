"""The docstring of the errors draws their whole tree, with the exit code of each."""

from __future__ import annotations

import pickle
import re

import pytest

from pipeline import errors
from pipeline.errors import BackcastError
from tests.golden import errors as refusals

TREE: list[type[BackcastError]] = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BackcastError)
]


def an_error(kind: type[BackcastError]) -> BackcastError:
    """One of each, with facts."""
    place = {"file": "shop.yaml", "line": 3, "column": 7}
    facts: dict[type[BackcastError], dict[str, object]] = {
        **dict.fromkeys((errors.WrongFile, errors.MappingError, errors.JobError), place),
        errors.UnreadableExport: {"path": "a.jsonl"},
        errors.StalePlan: {"differences": ["a.jsonl: changed"]},
        errors.Refused: {"status": 401},
    }
    return kind("what happened", hint="what to do", **facts.get(kind, {}))  # type: ignore[arg-type]


def test_the_drawn_tree_is_the_real_one() -> None:
    """The docstring names each class with its exit code, below the class it comes from."""
    drawn: list[tuple[int, str, int]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"( {4}[ │├└─]*)(\w+) +exit (\d+)", line)
        if found:
            drawn.append((len(found.group(1)) // 4, found.group(2), int(found.group(3))))
    parents: dict[str, str] = {}
    above: list[str] = []
    for depth, name, _ in drawn:
        del above[depth - 1 :]
        parents[name] = above[-1] if above else "Exception"
        above.append(name)
    assert {name: code for _, name, code in drawn} == {kind.__name__: kind.exit_code for kind in TREE}
    assert parents == {kind.__name__: kind.__bases__[0].__name__ for kind in TREE}


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_crosses_a_process_border_whole(kind: type[BackcastError]) -> None:
    """Message, hint and fields are the same on the other side."""
    before = an_error(kind)
    after = pickle.loads(pickle.dumps(before))
    assert type(after) is kind
    assert (str(after), after.__dict__) == (str(before), before.__dict__)


def test_a_mapping_error_says_file_line_and_column() -> None:
    """In the form that editors and people expect; some errors concern the whole file."""
    assert str(an_error(errors.MappingError)) == "what happened, at shop.yaml:3:7"
    assert str(errors.MappingError("no cases", file="shop.yaml")) == "no cases, at shop.yaml"


def test_every_refusal_is_in_the_table_and_says_what_to_do() -> None:
    """Errors of exit 2, 3 and 4, and checks that stop, with their words; `make golden` writes the table again."""
    table = refusals.table()
    assert table == refusals.FILE.read_text(encoding="utf-8")
    mute = [entry for entry in table.split("\n\n") if "    Error: " in entry and "    Try: " not in entry]
    assert [entry for entry in mute if "Error: STOP" not in entry] == []
