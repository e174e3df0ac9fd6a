"""The command line: what each command prints, its exit code, and that errors are two lines."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deliveries import COLUMNS, KEY, Reply, add, export, planned, scripted, serving, uuid

from pipeline.cli import COMMANDS, cli, main, run
from pipeline.service import LocalService

NOTHING = dict.fromkeys(("made", "accepted", "refused", "in_doubt", "already_settled", "unsent"), 0)
SAMPLES = Path(__file__).resolve().parent.parent / "sample_data"


def generic() -> list[str]:
    """The options that name the columns of the tests' export."""
    return ["-m", "generic", *(word for name in COLUMNS for word in ("--set", f"{name}={name}"))]


class Said:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in this process."""
    monkeypatch.delenv("BACKCAST_PERSONAL_KEY", raising=False)
    monkeypatch.setenv("BACKCAST_PROJECT_KEY", KEY)

    def calling(*words: object, stdin: str | None = None) -> Said:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
        capfd.readouterr()
        code = run([str(word) for word in words])
        return Said(code, *capfd.readouterr())

    return calling


def process(*words: object, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *map(str, words)],
        env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=60, check=False, **options,
    )  # fmt: skip


def two_lines(said: Said) -> tuple[str, str]:
    """An error as people see it."""
    lines = said.err.strip().splitlines()
    assert [line.split(":")[0] for line in lines] == ["Error", "Try"]
    assert "Traceback" not in said.err
    return lines[0], lines[1]


# -- help ------------------------------------------------------------------------------------------------


def leaves(group: Any, *path: str) -> list[tuple[str, ...]]:
    """Every command, subcommands too."""
    import click

    context = click.Context(group)
    found: list[tuple[str, ...]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found += leaves(command, *path, name) if isinstance(command, click.Group) else [(*path, name)]
    return found


@pytest.mark.parametrize("command", leaves(cli), ids=" ".join)
def test_every_command_has_an_example(call: Any, command: tuple[str, ...]) -> None:
    """`--help` of each command ends in an example that names it."""
    said = call(*command, "--help")
    assert said.code == 0
    assert f"backcast {' '.join(command)}" in said.out.split("Example: ")[1]


def test_help_lists_the_commands_of_the_design(call: Any) -> None:
    """`backcast --help` names each command with a sentence."""
    said = call("--help")
    assert [name for name in COMMANDS if f"  {name} " in said.out] == list(COMMANDS)


def test_an_unknown_command_names_the_nearest(call: Any) -> None:
    """A slip is a usage error that says what was meant."""
    said = call("rehears")
    assert said.code == 2
    assert "Did you mean 'rehearse'?" in two_lines(said)[0]


def test_an_unknown_option_points_at_help(call: Any) -> None:
    """What cannot be parsed is exit 2 and two lines."""
    said = call("plan", "--nonsense")
    assert (said.code, two_lines(said)[1]) == (2, "Try: backcast plan --help")


@pytest.mark.parametrize("code", ["import pipeline", "import pipeline.cli; pipeline.cli.run(['--help'])"])
def test_help_and_import_load_nothing_heavy(code: str) -> None:
    """Neither `import pipeline` nor `--help` loads a heavy library."""
    heavy = ["pyarrow", "pandas", "duckdb", "numpy", "httpx", "yaml", "rich", "msgspec", "sqlite3"]
    text = f"{code}; import sys; print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


# -- plan, rehearse, rejects -------------------------------------------------------------------------------


def test_plan_prints_one_object_with_the_documented_fields(call: Any, tmp_path: Path) -> None:
    """`plan --json` is pure JSON on stdout, with exactly the fields of the contract."""
    source = export(tmp_path / "export", 20)
    said = call("plan", source, *generic(), "-o", tmp_path / "plan", "--json")
    assert said.code == 0
    assert list(said.json) == ["format", "plan", "digest", "verdict", "tool", "zone", "first", "last", "rows", "events",
                               "parts", "skips", "rejects", "warnings", "gates"]  # fmt: skip
    assert said.json["format"] == "backcast.plan/1"
    assert said.json["rows"] == {"read": 20, "mapped": 20, "skipped": 0, "rejected": 0}
    assert said.json["events"] == {"made": 20, "phases": {"identities": 0, "groups": 0, "events": 20, "persons": 0}}
    assert [list(part) for part in said.json["parts"]] == [["path", "bytes", "digest", "rows"]] * 2


def test_rehearse_prints_what_was_applied_and_proved(call: Any, tmp_path: Path) -> None:
    """`rehearse --json` holds the objects of apply and verify."""
    said = call("rehearse", planned(tmp_path, 20), "--json")
    assert said.code == 0
    assert said.json["format"] == "backcast.rehearse/1"
    apply, verify = said.json["apply"], said.json["verify"]
    fields = {"format", "digest", "dry_run", "balanced", "seconds", "batches", "events", "phases", "held"}
    assert fields == set(apply)
    assert {"made", "accepted", "refused", "in_doubt", "already_settled"} <= set(apply["events"])
    assert {"made", "sent", "retried", "split"} == set(apply["batches"])
    assert {"match", "missing", "extra", "duplicated", "different"} == set(verify["cells"])
    assert {"expected", "found", "missing", "extra"} <= set(verify["events"])
    assert (apply["balanced"], verify["proved"], verify["events"]["found"]) == (True, True, 20)


def test_a_plan_that_is_not_ready_is_exit_4_and_can_be_rehearsed(call: Any, tmp_path: Path) -> None:
    """Gates stop the plan and its apply, not its rehearsal."""
    source = export(tmp_path / "export", 10, files=1)
    add(source / "part-0.jsonl", b"{broken\n")
    directory = tmp_path / "plan"
    assert call("plan", source, *generic(), "-o", directory).code == 4
    said = call("apply", directory, "--to", "http://127.0.0.1:1")
    assert said.code == 4
    assert "not ready" in two_lines(said)[0]
    assert call("rehearse", directory, "--json").json["verify"]["proved"] is True


def test_a_rehearsal_can_be_repeated_and_the_plan_moved(call: Any, tmp_path: Path) -> None:
    """A rehearsal begins afresh each time, also after the directory was moved."""
    directory = planned(tmp_path, 10)
    assert call("rehearse", directory).code == 0
    moved = directory.rename(tmp_path / "moved")
    said = call("rehearse", moved, "--json")
    assert (said.code, said.json["apply"]["events"]["already_settled"]) == (0, 0)


def test_standard_input_is_planned_and_moves_with_the_plan(tmp_path: Path) -> None:
    """`-` reads stdin, which is kept in the plan directory and found there when that moved."""
    source = export(tmp_path / "export", 10, files=1)
    with (source / "part-0.jsonl").open("rb") as stdin:
        done = process("plan", "-", *generic(), "-o", tmp_path / "plan", stdin=stdin)
    assert done.returncode == 0, done.stderr
    moved = (tmp_path / "plan").rename(tmp_path / "moved")
    done = process("rehearse", moved, "--json")
    assert json.loads(done.stdout)["verify"]["proved"] is True


def broken(call: Any, tmp_path: Path) -> Path:
    """A plan with two rejects: a broken line and a row without a person."""
    source = export(tmp_path / "export", 3, files=1)
    add(source / "part-0.jsonl", b'{"event":"x",\n{"event":"y","timestamp":"2023-01-01T00:00:00Z"}\n')
    assert call("plan", source, *generic(), "-o", tmp_path / "plan", "--max-rejects", "2").code == 0
    return tmp_path / "plan"


def test_rejects_come_as_jsonl_with_the_documented_fields(call: Any, tmp_path: Path) -> None:
    """One object a line, in the order of the rows, counted from 1."""
    said = call("rejects", broken(call, tmp_path), "--format", "jsonl")
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [list(one) for one in found] == [["part", "row", "offset", "stage", "code", "detail", "record"]] * 2
    assert [(one["row"], one["code"]) for one in found] == [(4, "bad_json"), (5, "missing_distinct_id")]


def test_rejects_come_as_csv_and_by_code(call: Any, tmp_path: Path) -> None:
    """CSV has a header; --code leaves others out; the table names both."""
    directory = broken(call, tmp_path)
    rows = list(csv.reader(io.StringIO(call("rejects", directory, "--format", "csv", "--code", "bad_json").out)))
    assert [row[4] for row in rows] == ["code", "bad_json"]
    table = call("rejects", directory).out
    assert "bad_json" in table
    assert "missing_distinct_id" in table


# -- apply, status, verify -----------------------------------------------------------------------------------


def test_apply_status_and_verify_print_the_documented_objects(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned, applied, proved: each object has its fields, and stdout holds nothing else."""
    directory = planned(tmp_path, 20)
    said = call("status", directory, "--json")
    assert (said.json["format"], said.json["state"], said.json["events"]["made"]) == ("backcast.status/1", "planned", 0)
    with LocalService() as service:
        monkeypatch.setenv("BACKCAST_PROJECT_KEY", service.capture_key)
        said = call("apply", directory, "--to", service.url, "--json")
        assert said.code == 0
        assert (said.json["format"], said.json["dry_run"], said.json["balanced"]) == ("backcast.apply/1", False, True)
        assert said.json["events"] == NOTHING | {"made": 20, "accepted": 20}
        assert said.json["batches"] == {"made": 2, "sent": 2, "retried": 0, "split": 0}
        monkeypatch.setenv("BACKCAST_PERSONAL_KEY", service.personal_key)
        said = call("verify", directory, "--to", service.url, "--json")
        assert (said.code, said.json["format"], said.json["proved"]) == (0, "backcast.verify/1", True)
        service.store._writer.execute(f"delete from accepted where uuid = '{uuid(3)}'")
        said = call("verify", directory, "--to", service.url, "--json")
        assert (said.code, said.json["events"]["missing"], said.json["proved"]) == (7, 1, False)
    said = call("status", directory, "--json")
    assert (said.json["state"], said.json["events"]["accepted"]) == ("done", 20)


def test_a_dry_run_needs_no_key_and_no_network(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`apply --dry-run` to a far target sends nothing, asks nothing and writes no ledger."""
    monkeypatch.delenv("BACKCAST_PROJECT_KEY")
    directory = planned(tmp_path, 20, target="eu")
    said = call("apply", directory, "--to", "eu", "--dry-run", "--json")
    assert (said.code, said.json["dry_run"], said.json["events"]["accepted"]) == (0, True, 20)
    assert not (directory / "ledger.sqlite").exists()


def test_apply_without_a_key_is_a_usage_error(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key is exit 2, and says where to put one."""
    monkeypatch.delenv("BACKCAST_PROJECT_KEY")
    said = call("apply", planned(tmp_path, 3), "--to", "http://127.0.0.1:1")
    assert said.code == 2
    assert "BACKCAST_PROJECT_KEY" in two_lines(said)[1]


@pytest.mark.parametrize("typed", ["", "19\n", "yes\n", "200\n"])
def test_a_wrong_number_sends_nothing(call: Any, tmp_path: Path, typed: str) -> None:
    """A far target asks for the number of events; anything else is exit 2 before any network use."""
    directory = planned(tmp_path, 20, target="http://backcast.invalid")
    said = call("apply", directory, "--to", "http://backcast.invalid", stdin=typed)
    assert said.code == 2
    assert "Imported events cannot be deleted" in said.err
    assert "nothing was sent" in said.err
    assert not (directory / "ledger.sqlite").exists()


@pytest.mark.parametrize(("typed", "options"), [("2_0\n", []), ("20\n", []), ("", ["--yes"])])
def test_the_right_number_or_yes_goes_on(call: Any, tmp_path: Path, typed: str, options: list[str]) -> None:
    """The number of events, or --yes, lets the run begin: here it finds nobody at that name, exit 6."""
    directory = planned(tmp_path, 20, target="http://backcast.invalid")
    words = ["apply", directory, "--to", "http://backcast.invalid", "--retry-for", "0", "--max-retries", "0"]
    said = call(*words, *options, stdin=typed)
    assert said.code == 6
    assert (directory / "ledger.sqlite").exists()


def test_a_stopped_run_prints_its_counts_and_its_error(call: Any, tmp_path: Path) -> None:
    """Exit 5 where the service refused us: the counts are on stdout, the error is on stderr and names the host."""
    directory = planned(tmp_path, 30)
    with serving(lambda asked: Reply(401, b"API key is not valid") if asked.number else Reply()) as server:
        said = call("apply", directory, "--to", server.url, "--json", "--max-concurrency", "1")
    assert said.code == 5
    assert said.json["balanced"] is False
    assert said.json["events"] == NOTHING | {"made": 10, "accepted": 10, "unsent": 20}
    assert two_lines(said)[0] == f"Error: {server.url} answered 401: API key is not valid"
    assert call("status", directory, "--json").json["state"] == "stopped"


def test_refused_events_are_exit_5_after_the_rest_settled(call: Any, tmp_path: Path) -> None:
    """One refused event, everything else settled: balanced, and exit 5."""
    directory = planned(tmp_path, 30)
    with serving(lambda asked: Reply(400) if uuid(7) in str(asked.events) else Reply()) as server:
        said = call("apply", directory, "--to", server.url, "--json")
    assert (said.code, said.json["balanced"], said.json["events"]["refused"]) == (5, True, 1)


def test_an_unfinished_run_is_exit_6(call: Any, tmp_path: Path) -> None:
    """Patience at its end is exit 6."""
    with serving(scripted(Reply(503, b"later"))) as server:
        said = call("apply", planned(tmp_path, 3), "--to", server.url, "--max-retries", "0")
    assert said.code == 6
    assert two_lines(said)[1] == "Try: run the same command again to resume"


def test_a_missing_export_is_exit_3(call: Any, tmp_path: Path) -> None:
    """A file that is gone is named; --source-root finds it elsewhere."""
    directory = planned(tmp_path, 10)
    (tmp_path / "export").rename(tmp_path / "elsewhere")
    with serving(scripted(Reply())) as server:
        said = call("apply", directory, "--to", server.url)
        assert said.code == 3
        assert "part-0.jsonl" in two_lines(said)[0]
        said = call("apply", directory, "--to", server.url, "--source-root", tmp_path / "elsewhere")
        assert said.code == 0


def test_a_plan_of_another_dialect_is_exit_4(call: Any, tmp_path: Path) -> None:
    """A plan made without --for is not applied to a region."""
    said = call("apply", planned(tmp_path, 3), "--to", "us", "--yes")
    assert said.code == 4
    assert two_lines(said)[1] == "Try: plan again with --for us, or rehearse this one"


@pytest.mark.parametrize("command", ["rehearse", "status", "rejects", "apply", "verify"])
def test_a_directory_without_a_plan_is_a_usage_error(call: Any, tmp_path: Path, command: str) -> None:
    """No plan.json is exit 2 and says how to make one."""
    options = ["--to", "http://127.0.0.1:1"] if command in ("apply", "verify") else []
    said = call(command, tmp_path, *options)
    assert said.code == 2
    assert two_lines(said)[1] == "Try: make one with: backcast plan SOURCE -o DIR"


def test_verify_without_a_key_is_a_usage_error(call: Any, tmp_path: Path) -> None:
    """Reading needs the personal key."""
    said = call("verify", planned(tmp_path, 3), "--to", "http://127.0.0.1:1")
    assert said.code == 2
    assert "BACKCAST_PERSONAL_KEY" in two_lines(said)[1]


def test_an_output_that_cannot_be_made_is_a_usage_error(call: Any, tmp_path: Path) -> None:
    """A plan directory below a file is exit 2, with another place to try."""
    (tmp_path / "file").touch()
    said = call("plan", export(tmp_path / "export", 3), *generic(), "-o", tmp_path / "file" / "plan")
    assert said.code == 2
    assert "cannot write" in two_lines(said)[0]


def test_a_plan_that_was_applied_is_never_planned_over(call: Any, tmp_path: Path) -> None:
    """A directory with a ledger is kept: exit 2."""
    directory = planned(tmp_path, 3)
    with serving(scripted(Reply())) as server:
        assert call("apply", directory, "--to", server.url).code == 0
    said = call("plan", tmp_path / "export", *generic(), "-o", directory)
    assert said.code == 2
    assert "never planned over" in two_lines(said)[0]


# -- mappings --------------------------------------------------------------------------------------------


def test_a_mapping_is_recognised_when_none_is_named(call: Any, tmp_path: Path) -> None:
    """A Mixpanel export is planned as one."""
    said = call("plan", SAMPLES / "mixpanel", "--timezone", "America/New_York", "-o", tmp_path / "plan", "--json")
    assert (said.code, said.json["tool"]) == (0, "mixpanel")


def test_rows_that_nobody_recognises_are_never_guessed(call: Any, tmp_path: Path) -> None:
    """An export that looks like no tool asks for -m: exit 2, and nothing is written."""
    said = call("plan", export(tmp_path / "export", 3), "-o", tmp_path / "plan")
    assert said.code == 2
    assert "-m MAPPING" in two_lines(said)[1]
    assert not (tmp_path / "plan" / "plan.json").exists()


def test_rows_of_two_tools_are_never_guessed(call: Any, tmp_path: Path) -> None:
    """An export that two mappings recognise equally is an error that names both."""
    mixed = tmp_path / "mixed.jsonl"
    mixpanel = {"event": "a", "properties": {"time": 1600000000, "distinct_id": "u"}}
    amplitude = {"event_type": "a", "event_time": "2021-01-01 00:00:00.000000", "device_id": "d"}
    both = mixpanel | amplitude
    mixed.write_text((json.dumps(both) + "\n") * 3, "utf-8")
    said = call("plan", mixed, "-o", tmp_path / "plan")
    assert said.code == 2
    assert "amplitude" in two_lines(said)[0]
    assert "mixpanel" in two_lines(said)[0]


@pytest.mark.parametrize("sample", ["generic/orders.csv", "mixpanel", "amplitude"])
def test_a_new_mapping_loads_and_its_cases_pass(call: Any, tmp_path: Path, sample: str) -> None:
    """`mapping new` writes a file that `mapping check` and `mapping test` accept."""
    mine = tmp_path / "mine.yaml"
    assert call("mapping", "new", SAMPLES / sample, "-o", mine).code == 0
    assert call("mapping", "check", mine).code == 0
    said = call("mapping", "test", mine, "--json")
    assert (said.code, said.json["failed"]) == (0, 0)
    assert call("mapping", "new", SAMPLES / sample, "-o", mine).code == 2


def test_a_mapping_error_says_where(call: Any, tmp_path: Path) -> None:
    """file:line:column, and two lines."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("format: backcast.mapping/1\ntool: shop\ntitle: Shop\nevnt: /name\n", "utf-8")
    said = call("mapping", "check", mine)
    assert said.code == 2
    assert f"{mine}:4:1" in two_lines(said)[0]


@pytest.mark.parametrize("command", [["list", "--json"], ["test", "--json"], ["schema"], ["show", "mixpanel"]])
def test_the_other_mapping_commands_work(call: Any, command: list[str]) -> None:
    """Lists, cases, the editor's schema and a file's text."""
    said = call("mapping", *command)
    assert said.code == 0
    if command[-1] != "mixpanel":
        assert said.json


def test_survey_prints_one_object(call: Any) -> None:
    """`survey --json` is pure JSON."""
    said = call("survey", SAMPLES / "mixpanel", "--json")
    assert (said.code, said.json["format"]) == (0, "backcast.survey/1")


# -- the process -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_service_prints_its_keys_and_stops_when_asked(tmp_path: Path, number: int) -> None:
    """Address and keys on stdout; SIGTERM and Ctrl-C end it with 0, the store whole."""
    store = tmp_path / "store.duckdb"
    service = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "service", "--port", "0", "--store", str(store)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert service.stdout is not None
    try:
        address = service.stdout.readline().split()[-1]
        keys = dict(service.stdout.readline().strip().split("=") for _ in range(2))
        done = process("apply", planned(tmp_path, 10), "--to", address, "--quiet", env=keys)
        assert done.returncode == 0, done.stderr
        done = process("verify", tmp_path / "plan", "--to", address, "--json", env=keys)
        assert json.loads(done.stdout)["proved"] is True
        service.send_signal(number)
        _, told = service.communicate(timeout=30)
    finally:
        service.kill()
        service.communicate()
    assert (service.returncode, told) == (0, "Press Ctrl-C to stop.\n")
    with LocalService(store) as again:
        assert again.count() == 10


@pytest.mark.parametrize("words", [[], ["mapping"], ["hog-functions"]], ids=["backcast", "mapping", "hog-functions"])
def test_a_group_without_a_command_prints_its_help(call: Any, words: list[str]) -> None:
    """The help as it stands, not as an error, and exit 2."""
    said = call(*words)
    assert (said.code, said.err) == (2, "")
    assert said.out == call(*words, "--help").out


def test_commands_run_one_after_the_other_in_one_process(tmp_path: Path) -> None:
    """Importing one command's file leaves the way into the others as it was."""
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


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`backcast rejects … | head` ends quietly."""
    source = tmp_path / "broken.jsonl"
    source.write_bytes(b"{broken\n" * 20_000)
    process("plan", source, *generic(), "-o", tmp_path / "plan")
    for form in ("jsonl", "csv", "table"):
        reader, writer = os.pipe()
        rejects = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "rejects", str(tmp_path / "plan"), "--format", form],
            stdout=writer, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(writer)
        os.read(reader, 10)
        os.close(reader)
        _, told = rejects.communicate(timeout=30)
        assert (form, rejects.returncode, told) == (form, 0, "")


def test_the_exit_code_survives_a_closed_pipe(tmp_path: Path) -> None:
    """Whoever does not read the result still gets the exit code: 5 for a refused event."""
    directory = planned(tmp_path, 20)
    reader, writer = os.pipe()
    os.close(reader)
    with serving(lambda asked: Reply(400) if uuid(7) in str(asked.events) else Reply()) as server:
        applying = subprocess.Popen(
            [sys.executable, "-m", "pipeline", "apply", str(directory), "--to", server.url, "--json"],
            stdout=writer, stderr=subprocess.PIPE, text=True, env=os.environ | {"BACKCAST_PROJECT_KEY": KEY},
        )  # fmt: skip
        os.close(writer)
        _, told = applying.communicate(timeout=30)
    assert (applying.returncode, "Traceback" in told) == (5, False)


def test_a_defect_is_exit_1_in_two_lines(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What nobody foresaw is our bug, and says how to report it."""
    from pipeline import workflow

    def fail(*_: object) -> None:
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr(workflow, "load_plan", fail)
    said = call("status", tmp_path)
    assert (said.code, two_lines(said)[0]) == (1, "Error: a defect of backcast: ZeroDivisionError: surprise")


def test_main_exits_with_the_code(tmp_path: Path) -> None:
    """The console script ends with the command's exit code."""
    with pytest.raises(SystemExit) as leaving:
        main(["status", str(tmp_path)])
    assert leaving.value.code == 2


def test_an_error_is_two_lines_whatever_a_name_holds(capsys: pytest.CaptureFixture[str]) -> None:
    """A control sequence or a line end in a file's name is shown, never obeyed."""
    assert run(["survey", "no\x1b\nsuch"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == ["Error", "Try"]
    assert "\x1b" not in "".join(said)
    assert "no\\x1b\\nsuch" in said[0]
