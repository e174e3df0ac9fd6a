"""A receipt states what was read, planned, sent and found, and a change of anything that it names is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from pipeline import api
from pipeline.errors import StalePlan, UsageError
from pipeline.options import ReceiptOptions
from pipeline.plan.sealed.freshness import open_plan
from pipeline.proof.check import check_receipt
from pipeline.proof.receipt import as_file
from pipeline.report.machine import write_report
from tests.support.commands import in_process
from tests.support.deliveries import add, in_ledger, planned, run
from tests.support.verification import sent, sent_rows

CHECKS = (
    "file", "signature", "rows", "events", "verification", "inputs", "plan", "ledger", "results", "state",
)  # fmt: skip
"""The checks of a receipt of a plan."""


def keys(folder: Path, form: str = "pem") -> tuple[Path, Path]:
    """A new key and its public key, in files."""
    key = Ed25519PrivateKey.generate()
    private, encoding, public = {
        "pem": (PrivateFormat.PKCS8, Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "ssh": (PrivateFormat.OpenSSH, Encoding.OpenSSH, PublicFormat.OpenSSH),
    }[form]
    folder.mkdir(exist_ok=True)
    (folder / "key").write_bytes(key.private_bytes(Encoding.PEM, private, NoEncryption()))
    (folder / "key.pub").write_bytes(key.public_key().public_bytes(encoding, public))
    return folder / "key", folder / "key.pub"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan that was sent, verified and rehearsed."""
    one = sent_rows(tmp_path, 40, links=True)
    assert one.verify().proved
    folder = one.directory / "rehearsal"
    folder.mkdir()
    for name in ("requests.jsonl", "requests", "facts"):
        (folder / name).symlink_to(Path("..") / name)
    return one.directory


def failed(file: Path, **options: Any) -> set[str]:
    return {check for check, result in results(file, **options).items() if result == "failed"}


def results(file: Path, **options: Any) -> dict[str, str]:
    return {check.name: check.result for check in check_receipt(file, **options).checks}


@pytest.mark.parametrize("form", ["pem", "ssh"])
def test_a_signed_receipt_is_checked_against_export_plan_and_ledger(plan: Path, tmp_path: Path, form: str) -> None:
    key, public = keys(tmp_path / "keys", form)
    api.write_receipt(plan, ReceiptOptions(sign=key))
    receipt = plan / "receipt.json"
    every = dict.fromkeys(CHECKS, "ok")
    assert results(receipt, source_root=tmp_path / "export", public_key=public) == every
    assert results(receipt) == every | {"inputs": "not checked", "signature": "not checked"}
    (compared,) = (check.detail for check in check_receipt(receipt).checks if check.name == "verification")
    assert compared.endswith("found at the target, each once; every property of 47 events compared, of all events")
    alone = tmp_path / "alone.json"
    alone.write_bytes(receipt.read_bytes())
    beside = ("inputs", "plan", "ledger", "results", "state")
    assert results(alone, public_key=public) == every | dict.fromkeys(beside, "not checked")
    _, other = keys(tmp_path / "others", form)
    assert results(receipt, public_key=other)["signature"] == "failed"


def test_a_receipt_replaces_a_receipt_and_no_other_file(plan: Path, tmp_path: Path) -> None:
    """Neither the plan nor the export; a missing folder is named, and for a file without a key the error says how to
    make one."""
    export = next(path for path in (tmp_path / "export").rglob("*") if path.is_file())
    for other in (plan / "plan.json", export):
        before = other.read_bytes()
        with pytest.raises(UsageError, match="exists and is no"):
            api.write_receipt(plan, ReceiptOptions(out=other))
        assert other.read_bytes() == before
    with pytest.raises(UsageError, match="does not exist"):
        api.write_receipt(plan, ReceiptOptions(out=tmp_path / "missing" / "receipt.json"))
    for content in (b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"):
        (tmp_path / "key").write_bytes(content)
        with pytest.raises(UsageError, match="has no private key") as raised:
            api.write_receipt(plan, ReceiptOptions(sign=tmp_path / "key"))
        assert "openssl genpkey" in raised.value.hint
    assert not (plan / "receipt.json").exists()
    for _ in range(2):
        api.write_receipt(plan, ReceiptOptions(out=tmp_path / "receipt.json"))


@pytest.mark.parametrize("file", ["facts", "requests"])
def test_no_receipt_is_written_of_a_damaged_plan(plan: Path, file: str) -> None:
    """It would state digests that cannot be reproduced: the error names the file and the remedy."""
    first = next(path for path in (plan / file).iterdir())
    add(first, b"x")
    with pytest.raises(StalePlan, match=f"{first.name} was changed after it was sealed") as raised:
        api.write_receipt(plan)
    assert "restore the plan's directory" in raised.value.hint
    assert not (plan / "receipt.json").exists()


def edited(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a receipt and write it as `receipt write` does."""
    content = json.loads(file.read_text())
    change(content)
    file.write_bytes(as_file(content))


def test_every_change_is_noticed(plan: Path, tmp_path: Path) -> None:
    """A number of the receipt, a file of export or plan, and the ledger: each fails the check that reads it."""
    api.write_receipt(plan)
    receipt, root = plan / "receipt.json", tmp_path / "export"
    whole = receipt.read_text()
    assert results(receipt, source_root=root)["signature"] == "not checked"
    edits: list[tuple[set[str], Callable[[dict[str, Any]], None]]] = [
        ({"rows", "plan"}, lambda content: content["inputs"][0].update(rows=1)),
        ({"events", "ledger"}, lambda content: content["sending"]["phases"]["events"].update(settled=1)),
        ({"verification", "results", "state"}, lambda content: content["verification"]["events"].update(expected=1)),
        ({"inputs", "plan"}, lambda content: content["inputs"][0].update(sha256="0" * 64)),
        ({"plan"}, lambda content: content["plan"].update(digest="0" * 64)),
        ({"ledger"}, lambda content: content["sending"].update(digest="0" * 64)),
        ({"verification", "results"}, lambda content: content["verification"].update(to="http://127.0.0.1:9")),
        ({"state"}, lambda content: content.update(state="sent")),
        ({"file"}, lambda content: content["plan"].update(approved_by="somebody")),
    ]
    for failing, change in edits:
        edited(receipt, change)
        assert failed(receipt, source_root=root) == failing
        receipt.write_text(whole)
    add(root / "part-0.jsonl", b"\n")
    (plan / "requests.jsonl").write_bytes((plan / "requests.jsonl").read_bytes() + b"\n")
    in_ledger(plan, "update batches set state = 'begun' where first = 0 and phase = 'events'")
    assert failed(receipt, source_root=root) == {"inputs", "plan", "ledger", "state"}


def test_a_changed_signed_receipt_fails_whatever_was_changed(plan: Path, tmp_path: Path) -> None:
    """Each byte of the receipt is signed, also those that no other check reads."""
    key, _ = keys(tmp_path / "keys")
    api.write_receipt(plan, ReceiptOptions(sign=key))
    receipt = plan / "receipt.json"
    whole = json.loads(receipt.read_text())
    for name in whole.keys() - {"signature", "format"}:
        receipt.write_text(json.dumps({other: value for other, value in whole.items() if other != name}))
        with pytest.raises(UsageError, match="is not a receipt"):
            check_receipt(receipt)
    for change in ({"added": 1}, {"unproved": []}, {"signature": whole["signature"] | {"algorithm": "ed25519"}}):
        receipt.write_bytes(as_file(whole | change))
        assert "signature" in failed(receipt)
    receipt.write_text(json.dumps(whole))  # another spelling of the same values
    assert failed(receipt) == {"file", "signature"}


def test_later_runs_do_not_invalidate_a_receipt(tmp_path: Path) -> None:
    """A run with nothing to send, a rehearsal and another verification."""
    one = sent_rows(tmp_path, 40)
    one.verify()
    api.write_receipt(one.directory)
    receipt = one.directory / "receipt.json"
    run(one.directory, one.room.url, key=one.room.key())
    assert in_ledger(one.directory, "select count(*) from runs") == [(2,)]
    assert failed(receipt) == set()
    edited(receipt, lambda content: content["sending"].update(runs=3))
    assert failed(receipt) == {"ledger"}
    edited(receipt, lambda content: content["sending"].update(runs=1) or content.update(written="2026-01-01T00:00:00Z"))
    one.verify()
    assert results(receipt)["results"] == "not checked"


def test_what_cannot_be_proved_is_stated(tmp_path: Path) -> None:
    """Without a verification, or with a batch in doubt, the receipt names it; without a ledger a plan has no
    receipt."""
    plan = planned(tmp_path, 20)
    with pytest.raises(UsageError, match=r"nothing of .* was sent"):
        api.write_receipt(plan)
    sent(plan)
    in_ledger(plan, "update batches set state = 'begun' where request = 0")
    receipt = api.write_receipt(plan)
    assert receipt.state == "stopped"
    assert receipt.sending.phases["events"].in_doubt == 10
    assert any("10 events in doubt" in sentence for sentence in receipt.unproved)
    assert any("was not compared" in sentence for sentence in receipt.unproved)


def test_the_report_has_a_chapter_for_the_receipt_of_its_plan(plan: Path, tmp_path: Path) -> None:
    """It has the digest of the file and the key; a receipt of another plan is not shown."""
    key, public = keys(tmp_path / "keys")
    done = in_process("receipt", "write", plan, "--sign", key)
    assert done.returncode == 0, done.stderr
    page = (plan / "report.html").read_text()
    assert ". Receipt</h2>" in page
    assert hashlib.sha256((plan / "receipt.json").read_bytes()).hexdigest() in page
    assert json.loads((plan / "receipt.json").read_text())["signature"]["public_key"] in page
    edited(plan / "receipt.json", lambda content: content["plan"].update(digest="0" * 64))
    assert in_process("receipt", "check", plan / "receipt.json", "--public-key", public).returncode == 7
    opened, folder = open_plan(plan)
    write_report(folder, opened)
    assert ". Receipt</h2>" not in (plan / "report.html").read_text()
