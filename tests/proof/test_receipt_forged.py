"""Changes of a receipt, or of the files next to it, are noticed; and a check opens nothing outside its folders."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import api
from pipeline.delivery.apply import SendLimits
from pipeline.delivery.retry import RetryPolicy
from pipeline.errors import UsageError
from pipeline.options import ReceiptOptions
from pipeline.plan.sealed.manifest import Plan, seal
from pipeline.proof.check import check_receipt
from pipeline.proof.receipt import Receipt, as_file
from pipeline.proof.signature import is_valid, read_public_key
from tests.proof.test_receipt import failed, keys, results
from tests.support.deliveries import Asked, Reply, passed_on, planned, run, serving, uuid
from tests.support.verification import Sent, empty

CLAIMED = {"written", "version", "format", "signature"}
"""Statements of a receipt about itself, which are in neither plan nor ledger."""
PRIME = 2**255 - 19
Way = tuple[str | int, ...]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a plan and its export: merges, a refused event, a lost answer, a verification, a receipt."""
    folder = tmp_path_factory.mktemp("forged")
    directory, room = planned(folder, 40, links=True), empty()
    lost: list[bytes] = []

    def answer(asked: Asked) -> Reply:
        if any(event["uuid"] == uuid(4) for event in asked.events):
            return Reply(400, b"bad")
        reply = passed_on(room.url, asked.body)
        if not lost:
            lost.append(asked.body)
            return Reply(0)
        return reply

    with serving(answer) as server:
        assert run(
            directory, server.url, key=room.key(), send_limits=SendLimits(1, RetryPolicy(first=0))
        ).counts.refused
        assert Sent(directory, room, server.url).verify().proved
    api.write_receipt(directory)
    return folder


@pytest.fixture
def plan(done: Path, tmp_path: Path) -> Path:
    """A copy of that plan, next to a copy of its export."""
    shutil.copytree(done, tmp_path / "copy")
    return tmp_path / "copy/plan"


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """The path to each value in a receipt, lists and objects included."""
    if way:
        yield way
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        if way or name not in CLAIMED:
            yield from ways(inner, (*way, name))


def another(value: Any, kind: int) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + (1, -1, 1_000)[kind % 3]
        case str():
            return (value + "x", "", value[::-1] + "y")[kind % 3] or "z"
        case dict():
            return value | {"bad_value": 1} if kind % 2 or not value else {}
        case list():
            return [*value, *value[:1]] if kind % 2 and value else [] if value else ["x"]
    return ("x", 1, {})[kind % 3]


def reached(content: Any, way: Way) -> Any:
    for name in way:
        content = content[name]
    return content


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_every_value_of_a_receipt_is_computed_again(done: Path, data: st.DataObject) -> None:
    """It is not signed, and a changed value is written as backcast writes it: the plan and its ledger contradict it."""
    file = done / "plan/receipt.json"
    content = json.loads(file.read_text())
    *to, name = data.draw(st.sampled_from(list(ways(content))))
    inside = reached(content, tuple(to))
    if data.draw(st.integers(0, 3)):
        inside[name] = another(inside[name], data.draw(st.integers(0, 5)))
    else:
        del inside[name]
    forged = file.with_name("forged.json")
    forged.write_bytes(as_file(content))
    try:
        same = msgspec.convert(content, Receipt) == msgspec.json.decode(file.read_bytes(), type=Receipt)
        found = failed(forged)
    except (UsageError, msgspec.MsgspecError):
        return  # not a receipt any more
    assert found or same, (to, name, inside)


def test_the_receipt_itself_fails_no_check(done: Path) -> None:
    """Also after a change of wording in another version, and after a later verification."""
    assert failed(done / "plan/receipt.json") == set()
    content = json.loads((done / "plan/receipt.json").read_text())
    (cause,) = content["sending"]["refusals"]
    assert (cause[0], cause[1], cause[2].split(",")[0]) == ("400 bad", 1, "part-0.jsonl")
    assert content["sending"]["resolved_doubts"]["batches"] == 1
    other = done / "plan/other.json"
    other.write_bytes(as_file(content | {"version": "0.1", "unproved": ["That all is well."]}))
    assert failed(other) == set()
    other.write_bytes(as_file(content | {"written": "2026-01-01T00:00:00Z"}))
    assert "state" in failed(other)


def test_a_name_that_is_there_twice_does_not_hide(plan: Path, tmp_path: Path) -> None:
    """Readers that use the first and readers that use the last would read two receipts."""
    key, public = keys(tmp_path / "keys")
    file = plan / "receipt.json"
    for options in (ReceiptOptions(), ReceiptOptions(sign=key)):
        api.write_receipt(plan, options)
        whole = file.read_bytes()
        for twice in (b'{\n "state": "verified",', b'{\n "signature": null,', b'{"signature":null,'):
            file.write_bytes(whole.replace(b"{", twice, 1))
            assert failed(file, public_key=public) >= {"file", "signature"}
    file.write_bytes(whole)
    assert failed(file, public_key=public) == set()
    bare = re.sub(rb'(?m)^ "signature": \{[^{}]*\}', b' "signature": null', whole)
    stated = json.loads(whole)["signature"]
    known = Ed25519PublicKey.from_public_bytes(base64.b64decode(stated["public_key"]))
    known.verify(base64.b64decode(stated["signature"]), bare)  # the bytes that the docs name


def test_without_a_key_of_the_reader_nothing_is_authenticated(plan: Path, tmp_path: Path) -> None:
    """A receipt that contains its own key does not count as well signed."""
    key, public = keys(tmp_path / "keys")
    api.write_receipt(plan, ReceiptOptions(sign=key))
    for options, result in (({}, "not checked"), ({"public_key": public}, "ok")):
        found = check_receipt(plan / "receipt.json", **options)
        (signature,) = (check for check in found.checks if check.name == "signature")
        assert (signature.result, found.authenticated, found.ok) == (result, result == "ok", True)
        assert ("not authenticated" in signature.detail) == (result != "ok")


def small_order() -> Iterator[bytes]:
    """Every encoding of a point whose order divides 8, also those that RFC 8032 never produces."""
    eight = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
    for y in (0, 1, PRIME - 1, PRIME, PRIME + 1, eight, PRIME - eight):
        for sign in (0, 1 << 255):
            yield (y | sign).to_bytes(32, "little")


def test_a_key_that_needs_no_private_key_is_refused(plan: Path, tmp_path: Path) -> None:
    """With a point of small order, the signature (point, 0) fits content of many kinds."""
    forged = 0
    for raw in small_order():
        text = base64.b64encode(raw).decode()
        for at in small_order():
            signature = base64.b64encode(at + bytes(32)).decode()
            for number in range(8):
                content = b"%d" % number
                assert not is_valid(content, text, signature)
                try:
                    Ed25519PublicKey.from_public_bytes(raw).verify(at + bytes(32), content)
                    forged += 1
                except Exception:
                    continue
        file = tmp_path / "weak.pub"
        try:
            pem = Ed25519PublicKey.from_public_bytes(raw).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        except ValueError:
            continue
        file.write_bytes(pem)
        with pytest.raises(UsageError, match="small order"):
            read_public_key(file)
    assert forged, "the library takes none of them, so this proves nothing"
    for _ in range(200):
        key = Ed25519PrivateKey.generate()
        public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
        assert is_valid(b"1", public, base64.b64encode(key.sign(b"1")).decode())


def as_symlink(path: Path) -> None:
    path.rename(path.with_name(path.name + ".elsewhere"))
    shutil.move(path.with_name(path.name + ".elsewhere"), path.parents[2] / path.name)
    path.symlink_to(path.parents[2] / path.name)


def as_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


IRREGULAR = (as_symlink, as_fifo, as_device)


@pytest.mark.parametrize("make", IRREGULAR)
@pytest.mark.parametrize("name", ["plan.json", "ledger.sqlite", "report.json", "requests.jsonl", "sent-to.json"])
def test_only_regular_files_of_the_plan_are_opened(plan: Path, name: str, make: Callable[[Path], None]) -> None:
    """A check neither follows a link nor waits for a FIFO or reads an endless device."""
    make(plan / name)
    (detail,) = (check.detail for check in check_receipt(plan / "receipt.json").checks if check.result == "failed")
    assert f"{name} is " in detail
    assert "is not opened" in detail


@pytest.mark.parametrize("make", IRREGULAR)
def test_only_regular_files_of_the_export_are_opened(plan: Path, make: Callable[[Path], None]) -> None:
    root = plan.with_name("export")
    assert results(plan / "receipt.json", source_root=root)["inputs"] == "ok"
    make(root / "part-0.jsonl")
    (detail,) = (one.detail for one in check_receipt(plan / "receipt.json", root).checks if one.name == "inputs")
    assert "part-0.jsonl cannot be read: " in detail


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../plan/plan.json", "a/../../plan/plan.json", "..", "", "/dev/zero", "a\0b", "x" * 5_000]
)
def test_a_path_of_a_receipt_does_not_lead_out_of_the_export(plan: Path, path: str) -> None:
    """Whatever the digest, nothing outside is read, so a receipt cannot be used to find out whether a file there has
    this content."""
    file = plan / "receipt.json"
    content = json.loads(file.read_text())
    content["inputs"][0].update(path=path)
    file.write_bytes(as_file(content))
    (detail,) = (one.detail for one in check_receipt(file, plan.with_name("export")).checks if one.name == "inputs")
    assert "cannot be read: " in detail


def sealed_again(plan: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """A plan that was changed, with the digest that belongs to it."""
    content = json.loads((plan / "plan.json").read_text())
    change(content)
    (plan / "plan.json").write_bytes(msgspec.json.encode(seal(msgspec.convert(content, Plan))))


def test_names_in_a_plan_lead_nowhere(plan: Path, tmp_path: Path) -> None:
    """Files that a plan seals."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    sealed_again(plan, lambda content: content["files"].update({"../../secret": "0" * 64, "a\0": "", "..": ""}))
    (detail,) = (one.detail for one in check_receipt(plan / "receipt.json").checks if one.name == "plan")
    assert "../../secret leads out of the plan's folder" in detail
    assert "changed" not in detail


@pytest.mark.parametrize(
    "sql",
    [
        "delete from meta", "drop table batches", "drop table runs", "update batches set phase = 7",
        "update batches set last = 9223372036854775807 where first = 0", "update batches set state = x'00'",
        "update refused_events set request = 99", "update refused_events set status = 'no'",
        "update batches set last = 1e300 where first = 0", "update runs set started = x'ff'",
        "update runs set started = cast(x'ff' as text)",
        "update tries set at = 5", "delete from tries", "update meta set value = 'x' where key = 'opened'",
    ],
)  # fmt: skip
def test_a_ledger_that_makes_no_sense_fails_its_check(plan: Path, sql: str) -> None:
    """The answer is a failed check, not a crash."""
    with closing(sqlite3.connect(plan / "ledger.sqlite")) as database, database:
        database.execute("create table loose as select * from batches")
        database.execute("drop table batches")
        database.execute("alter table loose rename to batches")
        database.execute(sql)
    assert "ledger" in failed(plan / "receipt.json")


@pytest.mark.parametrize(
    "content", [b"\xff", b"[]", b'{"plan": ' * 2_000, b'{"a": 123456789012345678901234567890}', b""]
)
def test_a_file_that_is_not_a_receipt_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "receipt.json"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="is not a receipt"):
        check_receipt(file)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(UsageError, match="is not a regular file"):
        check_receipt(file)


def test_deep_and_large_values_do_not_crash(plan: Path) -> None:
    """In the options, where any JSON is read."""
    file = plan / "receipt.json"
    for value in ("[" * 900 + "]" * 900, "1" * 400, "1e400", '{"a":' * 500 + "1" + "}" * 500):
        text = re.sub(r'"import_name": [^\n]*,', f'"import_name": "", "x": {value},', file.read_text())
        changed = re.sub(r'"options": \{', f'"options": {{"x": {value},', text)
        forged = file.with_name("forged.json")
        forged.write_text(changed)
        try:
            assert failed(forged)
        except UsageError:
            continue


def test_nothing_of_a_checked_folder_changes(plan: Path) -> None:
    """Not even a plan that waits to be moved into place: anyone may have put it there."""
    (plan / "finished-plan").mkdir()
    (plan / "finished-plan/rejects.jsonl").write_text("{}\n")
    before = sorted((path, path.stat().st_mtime_ns) for path in plan.rglob("*"))
    assert failed(plan / "receipt.json") == set()
    assert sorted((path, path.stat().st_mtime_ns) for path in plan.rglob("*")) == before


def test_the_numbers_of_the_issue_are_noticed(plan: Path) -> None:
    """Settled events changed to refused ones, in receipt and sums alike; target, zone and files emptied."""
    file = plan / "receipt.json"
    content = json.loads(file.read_text())
    phase = content["sending"]["phases"]["events"]
    phase.update(settled=0, refused=phase["settled"] + phase["refused"])
    content["sending"].update(target="")
    content["plan"].update(zone="", files={})
    file.write_bytes(as_file(content))
    assert failed(file) >= {"plan", "ledger"}
    with closing(sqlite3.connect(plan / "ledger.sqlite")) as database:
        assert database.execute("select count(*) from batches where state = 'settled'").fetchone()[0]
