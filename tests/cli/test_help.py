"""The command line before any work: help, examples, typing mistakes, and what starting loads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from pipeline.cli import COMMANDS, cli
from pipeline.cli.help import GroupedHelp, example


def commands(group: Any = cli, *path: str) -> dict[tuple[str, ...], Any]:
    """Every command and group of commands by its words; the whole command line comes first."""
    found = {path: group}
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            found |= commands(group.get_command(context, name), *path, name)
    return found


LEAVES = {path: found for path, found in commands().items() if not isinstance(found, click.Group)}


def test_every_command_and_group_has_an_example(call: Any) -> None:
    """`--help` of each command ends in an example that names it, that of a group in an example of one of its own; it
    is one line, to be copied."""
    for command in LEAVES:
        said = call(*command, "--help")
        *_, last = said.out.splitlines()
        assert (said.code, re.match(rf"  Example: (.* )?backcast {' '.join(command)}\b", last) is not None) == (0, True)
    for path, group in commands().items():
        assert path in LEAVES or group.epilog.startswith(example(" ".join(("backcast", *path)) + " ")), path
        assert path in LEAVES or "..." not in call(*path, "--help").out.split("Options:")[1], path


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_every_option_has_help_with_unit_and_default(command: tuple[str, ...]) -> None:
    """What it does, what its value is, and the default. Required and repeatable options need no default, nor do fields
    and filters of the management API: what is not given is not sent."""
    options = [one for one in LEAVES[command].params if isinstance(one, click.Option)]
    assert [one.opts for one in options if not (one.help or "").rstrip("]").strip()] == []
    valued = [one for one in options if not one.is_flag]
    assert [
        one.opts for one in valued if not (one.metavar or isinstance(one.type, click.Choice | click.IntRange))
    ] == []
    if command[0] not in ("hog-functions", "recordings"):
        needing = [one for one in valued if not one.required and not one.multiple and not one.show_default]
        assert [one.opts for one in needing if "[default: " not in (one.help or "")] == []


@pytest.mark.parametrize("command", [path[0] for path, found in LEAVES.items() if isinstance(found, GroupedHelp)])
def test_help_of_many_options_is_short_and_help_all_is_whole(call: Any, command: str) -> None:
    """The first fits 60 lines of 80 columns; the second has every option once."""
    short, whole = call(command, "--help").out, call(command, "--help-all").out
    assert len(short.splitlines()) <= 60
    shown = re.findall(r"^  (?:-., )?--([a-z-]+)", whole.split("Example: ")[0], re.MULTILINE)
    options = [
        one for one in LEAVES[command,].get_params(click.Context(LEAVES[command,])) if one.param_type_name == "option"
    ]
    assert sorted(shown) == sorted(max(one.opts, key=len).removeprefix("--") for one in options)
    assert set(re.findall(r"^  (?:-., )?--([a-z-]+)", short, re.MULTILINE)) < set(shown)


def test_a_slip_is_a_usage_error_that_says_what_was_meant(call: Any) -> None:
    """The help names every command; an error about an unknown command names the nearest one, and one about an unknown
    option points to the help."""
    said = call("--help")
    assert [name for name in COMMANDS if f"  {name} " in said.out] == list(COMMANDS)
    said = call("rehears")
    assert said.code == 2
    assert "Did you mean 'rehearse'?" in said.two_lines[0]
    said = call("plan", "--nonsense")
    assert (said.code, said.two_lines[1]) == (2, "Try: backcast plan --help")


def test_help_and_import_load_nothing_heavy() -> None:
    heavy = ["pyarrow", "pandas", "duckdb", "numpy", "httpx", "yaml", "rich", "msgspec", "sqlite3"]
    code = "import pipeline; import pipeline.cli; pipeline.cli.run(['--help'])"
    text = f"{code}; import sys; print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_a_group_without_a_command_prints_its_help(call: Any) -> None:
    """It is the usual help, not an error, and exit 2."""
    for words in ([], ["mapping"], ["hog-functions"]):
        said = call(*words)
        assert (said.code, said.err, said.out) == (2, "", call(*words, "--help").out)


def test_commands_run_one_after_the_other_in_one_process(tmp_path: Path) -> None:
    """Importing one command's file does not change how the others are started."""
    script = (
        "import contextlib, io\n"
        "from pipeline.cli import COMMANDS, main\n"
        "for name in [*COMMANDS, *COMMANDS]:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):\n"
        "        main([name, '--help'])\n"
        "    assert said.getvalue().startswith(f'Usage: backcast {name}'), name\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
