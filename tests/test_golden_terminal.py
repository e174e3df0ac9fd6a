"""What commands print on a terminal and into a pipe is what was reviewed."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from tests.golden import terminal


@pytest.mark.parametrize("columns", terminal.WIDTHS)
def test_commands_print_what_their_golden_files_say(columns: int) -> None:
    """Each screen, byte for byte; `make golden` writes them again."""
    found = terminal.captures(columns)
    assert [name for name in found if not terminal.path_of(name, columns).exists()] == []
    for name, shown in found.items():
        assert shown == terminal.path_of(name, columns).read_text(encoding="utf-8"), name


def test_no_golden_screen_is_wider_or_longer_than_it_may_be() -> None:
    """Results of a plan have 40 lines at most; only commands, paths and errors are longer than the terminal is wide."""
    files = sorted(terminal.FOLDER.glob("*.txt"))
    assert len(files) == 29
    for file in files:
        name, columns = file.stem.rsplit("-", 1)
        shown = file.read_text(encoding="utf-8").partition("\n")[2].split("--- ")[0]
        lines = re.sub(r"⟦[\d;]+⟧", "", shown).splitlines()
        whole = name == "rejects" and int(columns) == terminal.PIPED  # a line for each row, however long it is
        wide = [line for line in lines if cell_len(line) > int(columns) and not whole]
        assert [line for line in wide if not line.startswith(("  backcast", "Report:"))] == []
        if not name.startswith(("survey", "rejects", "run")):
            assert len(lines) <= 40 + 1, file.name  # apply begins with a line about the capture key
