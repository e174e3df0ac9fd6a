"""The commands of the management API: what each asks, prints and answers, and completion in three shells."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import Printed, calling, in_process
from tests.support.scripted_api import KEY, answering
from tests.support.scripted_server import Answer, Asked, Canned, scripted

ID = "01900000-0000-0000-0000-00000000000a"
FUNCTION = {
    "id": ID,
    "name": "Webhook",
    "type": "destination",
    "enabled": True,
    "execution_order": 3,
    "status": {"state": 1, "tokens": 10},
    "inputs": {"token": {"value": "swordfish"}},
    "mappings": [{"name": "m", "inputs": {"a": {"value": "swordfish"}}}],
    "template": {"id": "template-webhook"},
    "newer": [1.10],
}
ITEM = {name: FUNCTION[name] for name in ("id", "name", "type", "enabled", "execution_order", "status")}
PAGE = {"count": 1, "next": None, "previous": None, "results": [ITEM]}


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Printed]:
    """Run a command in this process with a personal key, which it must not print."""
    monkeypatch.setenv("BACKCAST_PERSONAL_KEY", KEY)
    command = calling(capfd, monkeypatch)

    def silent(*words: object, stdin: str = "") -> Printed:
        printed = command(*words, stdin=stdin)
        assert KEY not in printed.out + printed.err
        return printed

    return silent


def always(said: Canned) -> Answer:
    return lambda call: said


def asking(call: Any, said: Canned | Answer, *words: object, stdin: str = "") -> tuple[Printed, list[Asked]]:
    """What a command prints, and what it asks, if the service answers with these replies."""
    with answering(always(said) if isinstance(said, Canned) else said) as service:
        printed = call(*words, "--to", service.url, "--project", "7", stdin=stdin)
    return printed, service.asked


def test_a_person_sees_what_a_command_did(call: Any) -> None:
    """The result is a table or a line; tests/management/test_contract.py has what programs get from every operation."""
    for line, said in (
        ("hog-functions create --name a", Canned(201, FUNCTION)), ("hog-functions icons", Canned(200)),
        (f"hog-functions update {ID} --put --name a", Canned(200, FUNCTION)), ("recordings list", Canned(200, PAGE)),
        ("recordings get r", Canned(200, {"id": "r"})),
        ("recordings update r --person {}", Canned(200, {"id": "r"})), ("recordings delete r --yes", Canned(204)),
        ("recordings refresh-sharing r --yes", Canned(200, {"enabled": True})),
    ):  # fmt: skip
        printed, asked = asking(call, said, *line.split())
        assert (printed.code, printed.err, bool(printed.out.strip()), len(asked)) == (0, "", True, 1), line


def test_the_project_is_given_or_the_only_one_of_the_key(call: Any) -> None:
    """Projects are listed without one; if there are several, the error lists them and nothing more is asked."""
    with answering(always(Canned(200, {"count": 1, "results": [{"id": 123456, "name": "Shop"}]}))) as service:
        printed = call("projects", "list", "--to", service.url)
    assert [one.path for one in service.asked] == ["/api/projects/"]
    assert (printed.out.split("\n")[1].split(), printed.code) == (["123456", "Shop"], 0)
    shop, test = {"id": 7, "name": "Shop"}, {"id": 8, "name": "Test"}
    for projects, code in (([shop], 0), ([shop, test], 2)):
        answers = scripted(Canned(200, {"results": projects}), Canned(200, FUNCTION))
        with answering(answers) as service:
            printed = call("hog-functions", "get", ID, "--to", service.url)
        assert printed.code == code
        assert len(service.asked) == (2 if code == 0 else 1)
    assert printed.two_lines == (
        "Error: the personal key reaches several projects: 7 (Shop), 8 (Test)",
        "Try: choose one with --project ID",
    )


def test_filters_are_named_with_dashes_too(call: Any) -> None:
    """The contract's underscores work as well; comma lists may be given in parts."""
    words = ["--created-at", "2024-01-01", "--exclude-kind", "a,b", "--exclude_kind", "c"]
    printed, asked = asking(call, Canned(200, PAGE), "hog-functions", "list", *words)
    assert (printed.code, asked[0].query) == (0, {"created_at": "2024-01-01", "exclude_kind": "a,b,c"})


def pages(call: Asked) -> Canned:
    at = int(call.query.get("offset", 0))
    onward = f"http://{call.headers['host']}{call.path}?offset={at + 1}"
    return Canned(
        200, {"count": 3, "next": onward if at < 2 else None, "previous": None, "results": [{"id": f"f{at}"}]}
    )


@pytest.mark.parametrize("command", ["hog-functions", "recordings", "projects"])
def test_one_page_or_every_page(call: Any, command: str) -> None:
    """The output is the service's envelope, or one envelope with all pages; a line on stderr says that there is
    more."""
    with answering(pages) as service:
        words = [command, "list", "--to", service.url] + ([] if command == "projects" else ["--project", "7"])
        page, whole = call(*words, "--json"), call(*words, "--all", "--json")
        shown = call(*words)
        everything = call(*words, "--all")
    assert page.json["next"].endswith("offset=1")
    assert [one["id"] for one in page.json["results"]] == ["f0"]
    assert whole.json == {"count": 3, "next": None, "previous": None, "results": [{"id": f"f{n}"} for n in range(3)]}
    assert shown.out.strip().endswith("1 of 3; every one: --all")
    assert ("f2" in everything.out, "--all" in everything.out) == (True, False)
    with answering(always(Canned(200, {"count": 0, "results": []}))) as service:
        assert call(*words[:2], "--to", service.url, *words[4:]).out == "None.\n"


def test_what_is_shown_is_inert_exact_and_without_secrets(call: Any) -> None:
    """Input values and access tokens are not in tables; escape sequences and markup in names are shown, not obeyed;
    --json prints everything as the service sent it."""
    shared = {"enabled": True, "access_token": "swordfish", "created_at": "2024-01-01T00:00:00Z"}
    for words, answer in ((["hog-functions", "get", ID], FUNCTION), (["recordings", "sharing", "r"], shared)):
        table, program = (asking(call, Canned(200, answer), *words, *more)[0] for more in ([], ["--json"]))
        assert "swordfish" not in table.out
        assert "***" in table.out
        assert program.json == answer
    get, wild = ("hog-functions", "get", ID), "\x1b]0;x\x07[red]a\u202eb"
    shown, failed = (
        asking(call, said, *get)[0] for said in (Canned(200, {"id": ID, "name": wild}), Canned(400, {"detail": wild}))
    )
    for text in (shown.out, failed.err):
        assert r"\x1b]0;x\x07[red]a\u202eb" in text
    exact = Canned(200, b'{"execution_order": 123456789012345678901234567890, "name": "\\ud800 \xc3\xbc"}')
    printed, _ = asking(call, exact, *get, "--json")
    assert printed.json == {"execution_order": 123456789012345678901234567890, "name": "\ud800 ü"}
    assert "ü" in printed.out


@pytest.mark.parametrize(
    ("command", "answer", "shown"),
    [
        ("logs", {"count": 1, "results": [{"timestamp": "2024", "level": "ERROR", "message": "It broke"}]}, "It broke"),
        ("logs", {"count": 0, "results": []}, "none."),
        ("logs", None, "without a body"),
        ("metrics", {"labels": ["2024-01-01"], "series": [{"name": "success", "values": [1234]}]}, "1,234"),
        ("metrics", {"labels": ["2024-01-01", "2024-01-02"], "series": [{"name": "s", "values": [5]}]}, "2024-01-02"),
        ("totals", {"totals": {"success": 1234}}, "1,234"),
        ("totals", {"totals": None}, "totals"),
        ("invoke", {"status": "success", "logs": []}, "success"),
        ("invoke", "done", "done"),
    ],
)
def test_answers_that_the_contract_leaves_open_are_shown(call: Any, command: str, answer: Any, shown: str) -> None:
    """Responses are shown as the service gives them (docs/know/service.md#hog-functions); an empty one is reported."""
    said = Canned(200) if answer is None else Canned(200, answer)
    table, program = (asking(call, said, "hog-functions", command, ID, *more)[0] for more in ([], ["--json"]))
    assert shown in table.out
    assert program.json == answer


def test_an_icon_goes_into_a_file(call: Any, tmp_path: Path) -> None:
    said = Canned(200, b"\x89PNG\r\n\xff", {"Content-Type": "image/png"})
    words = ("hog-functions", "icon", "--id", "slack.com")
    printed, asked = asking(call, said, *words, "--output", tmp_path / "icon.png")
    told, _ = asking(call, said, *words, "--json")
    assert (tmp_path / "icon.png").read_bytes() == said.body
    assert "7 bytes of image/png, written to" in printed.out
    assert told.json == {"media_type": "image/png", "bytes": 7, "output": None}
    assert asked[0].query == {"id": "slack.com"}


def created(call: Any, *words: object, stdin: str = "") -> tuple[Printed, bytes]:
    """What a creation with these options sends; empty if the command stops before it sends."""
    printed, asked = asking(call, Canned(201, FUNCTION), "hog-functions", "create", *words, stdin=stdin)
    return printed, asked[0].body if asked else b""


@pytest.mark.parametrize("how", ["@", "-", ""])
def test_a_body_comes_from_a_file_stdin_or_the_command_line(call: Any, how: str, tmp_path: Path) -> None:
    """Values keep their bytes, unknown fields are sent, and an option overrides its field: its string is not changed,
    whatever it begins with."""
    text = '{"name": "old", "weight": 1.10, "big": 123456789012345678901234567890, "masking": { "ttl" : 60 }}'
    (tmp_path / "body.json").write_text(text)
    data = {"@": f"@{tmp_path}/body.json", "-": "-", "": text}[how]
    _, sent = created(call, "--data", data, "--name", "@new", stdin=text)
    assert sent == b'{"name":"@new","weight":1.10,"big":123456789012345678901234567890,"masking":{ "ttl" : 60 }}'


@pytest.mark.parametrize(
    "words",
    [[], ["--data", "{}"], ["--data", "[]"], ["--data", "{"], ["--data", '{"a": NaN}'], ["--data", "@/nowhere/b.json"],
     ["--data", "body.json"], ["--filters", "{x"], ["--data", "-", "--filters", "-"], ["--execution-order", "one"],
     ["--enabled", "perhaps"]],
)  # fmt: skip
def test_a_body_that_cannot_be_sent_is_a_usage_error(call: Any, words: list[str]) -> None:
    """Two lines, exit 2, and nothing is asked. Only one option reads stdin, as a second one would find it empty."""
    printed, sent = created(call, *words, stdin="{}")
    assert (printed.code, sent) == (2, b"")
    assert words.count("-") < 2 or printed.two_lines[0] == "Error: --data and --filters both read stdin"
    assert printed.two_lines


def test_inputs_on_the_command_line_are_remarked_on(call: Any, tmp_path: Path) -> None:
    """Inputs may be secrets; a file keeps them out of the process list."""
    (tmp_path / "inputs.json").write_text('{"a": {"value": "swordfish"}}')
    for words, noted in (
        (["--inputs", '{"a": {"value": "x"}}'], True),
        (["--data", '{"inputs": {}}'], True),
        (["--inputs", f"@{tmp_path}/inputs.json"], False),
        (["--name", "inputs"], False),
    ):
        printed, _ = created(call, *words)
        assert ("Note:" in printed.err, printed.code) == (noted, 0)


def test_rearranging_takes_pairs_or_a_body(call: Any) -> None:
    """`ID=N …` is the service's own form, `--data` the writable fields that the contract lists."""
    with answering(scripted(Canned(200, [FUNCTION]), Canned(200))) as service:
        words = ["hog-functions", "rearrange", "--to", service.url, "--project", "7"]
        printed = call(*words, f"{ID}=2", "b=-1")
        assert call(*words, "--data", '{"execution_order": 3}').code == 0
        assert "Webhook" in printed.out
        assert [one.json for one in service.asked] == [{"orders": {ID: 2, "b": -1}}, {"execution_order": 3}]
        for wrong in ([], ["a=1", "a=2"], ["a"], ["=1"], ["a=1.5"], ["a=²"], ["a=1", "--data", "{}"]):
            assert call(*words, *wrong).code == 2
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("hog-functions delete", Canned(200, FUNCTION)),
        ("hog-functions broadcast", Canned(200)),
        ("recordings delete", Canned(204)),
        ("hog-functions delete --hard --send", Canned(204)),
    ],
)
def test_a_person_agrees_before_something_is_lost(call: Any, command: str, said: Canned) -> None:
    """Only "yes" does it; "no", or no terminal to ask on, is exit 2, and nothing is sent."""
    with answering(always(said)) as service:
        words = [*command.split(), ID, "--to", service.url, "--project", "7"]
        declined, nobody = call(*words, stdin="n\n"), call(*words)
        assert (declined.code, nobody.code, service.asked) == (2, 2, [])
        for printed in (declined, nobody):  # the question is printed before them
            assert [line.split(":")[0] for line in printed.err.splitlines()[-2:]] == ["Error", "Try"]
        assert "nothing was done" in declined.err
        assert nobody.err.endswith("Try: give --yes to do it without a question\n")
        assert call(*words, stdin="y\n").code == 0
        assert len(service.asked) == 1


def test_hard_deletion_is_explained(call: Any) -> None:
    """Nothing is sent unless it is asked for; then the service's 405 is shown."""
    with answering(always(Canned(405))) as service:
        words = ["hog-functions", "delete", ID, "--hard", "--to", service.url, "--project", "7"]
        explained = call(*words)
        assert (explained.code, service.asked) == (2, [])
        assert "405" in explained.two_lines[0]
        sent = call(*words, "--send", "--yes")
        assert sent.code == 2
        assert "answered 405" in sent.two_lines[0]
        assert [one.method for one in service.asked] == ["DELETE"]
    assert call("hog-functions", "delete", ID, "--send", "--to", "eu").code == 2


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [(400, 2, "correct"), (401, 5, "key"), (403, 5, "hog_function:read"), (404, 2, "id"), (409, 5, "repeat"),
     (500, 6, "again")],
)  # fmt: skip
def test_a_refusal_is_two_lines_and_an_exit_code(
    call: Any, status: int, code: int, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line quotes the service, the second says what to do."""
    monkeypatch.setattr("pipeline.management.client.DEFAULT_TRIES", 0)
    said = Canned(status, {"detail": "Because.", "code": "c"})
    printed, _ = asking(call, said, "hog-functions", "get", ID, "--json")
    assert (printed.code, printed.out) == (code, "")
    what, hint = printed.two_lines
    assert f"answered {status}: Because." in what
    assert advice in hint


def test_without_a_personal_key_nothing_is_asked(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The key comes from the environment or a file."""
    monkeypatch.delenv("BACKCAST_PERSONAL_KEY")
    with answering(always(Canned(200, PAGE))) as service:
        words = ["hog-functions", "list", "--to", service.url, "--project", "7"]
        printed = call(*words)
        assert (printed.code, service.asked) == (2, [])
        assert "BACKCAST_PERSONAL_KEY" in printed.two_lines[1]
        (tmp_path / "key").write_text(KEY + "\n")
        assert call(*words, "--personal-key-file", tmp_path / "key").code == 0
    assert service.asked[0].headers["authorization"] == f"Bearer {KEY}"


BIN = Path(sys.executable).parent


@pytest.mark.parametrize(
    ("words", "incomplete", "found"),
    [
        ("backcast ho", "ho", {"hog-functions"}),
        ("backcast hog-functions re", "re", {"rearrange"}),
        ("backcast recordings list --to ", "", {"us", "eu"}),
        ("backcast projects list --per", "--per", {"--personal-key-file"}),
        ("backcast apply plan --to ", "", {"us", "eu"}),
        ("backcast apply plan --phases g", "g", {"groups"}),
        ("backcast apply plan --phases groups,p", "groups,p", {"groups,persons"}),
        ("backcast plan x --for e", "e", {"eu"}),
        ("backcast plan x --dialect p", "p", {"posthog"}),
        ("backcast plan x --profile-policy o", "o", {"overwrite"}),
        ("backcast plan x -m mixp", "mixp", {"mixpanel", "mixpanel-warehouse"}),
        ("backcast plan x --timezone America/New_", "America/New_", {"America/New_York"}),
        ("backcast mapping show segment-w", "segment-w", {"segment-warehouse"}),
        ("backcast rehearse plan --fault poi", "poi", {"poison"}),
        ("backcast rejects plan --code bad_js", "bad_js", {"bad_json"}),
    ],
)
def test_commands_and_options_are_completed(words: str, incomplete: str, found: set[str]) -> None:
    at = str(len(words.split()) - bool(incomplete))
    done = in_process(env={"_BACKCAST_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": at})
    assert (done.returncode, done.stderr) == (0, "")
    assert {line.split(",", 1)[1] for line in done.stdout.splitlines()} == found


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "complete -o"), ("zsh", "#compdef backcast"), ("fish", "complete ")]
)
def test_each_shell_is_answered_in_its_own_protocol(shell: str, mark: str) -> None:
    """`_BACKCAST_COMPLETE=bash_source backcast` prints a script for the shell, which then asks in the shell's own
    protocol."""
    words, incomplete = "backcast apply plan --phases groups,p", "groups,p"
    env = {"COMP_WORDS": words, "COMP_CWORD": incomplete if shell == "fish" else "4"}
    done = in_process(env=env | {"_BACKCAST_COMPLETE": f"{shell}_complete"})
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert (lines[1] if shell == "zsh" else lines[0].split(",", 1)[1].split("\t")[0]) == "groups,persons"
    script = in_process(env={"_BACKCAST_COMPLETE": f"{shell}_source"}).stdout
    assert (mark in script, f"_BACKCAST_COMPLETE={shell}_complete" in script) == (True, True)


def test_bash_completes_with_that_script() -> None:
    """A real bash reads the script and asks for the commands that begin with `ho`."""
    script = (
        'eval "$(_BACKCAST_COMPLETE=bash_source backcast)"; COMP_WORDS=(backcast ho); COMP_CWORD=1;'
        ' _backcast_completion backcast ho backcast; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "hog-functions\n"


def test_completion_loads_nothing_heavy() -> None:
    """A person waits for it after every key."""
    heavy = ["pyarrow", "pandas", "duckdb", "numpy", "httpx", "pydantic", "yaml", "rich", "msgspec"]
    script = (
        f"import sys; import pipeline.cli\ntry:\n    pipeline.cli.run([])\nfinally:\n"
        f"    print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    for words, at in (("backcast ", "1"), ("backcast hog-functions list --to ", "4")):
        env = {**os.environ, "_BACKCAST_COMPLETE": "zsh_complete", "COMP_WORDS": words, "COMP_CWORD": at}
        done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=60)
        assert done.stderr.strip() == "[]"
        assert done.stdout
