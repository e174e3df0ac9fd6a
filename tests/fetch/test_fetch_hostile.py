"""Bytes that are not text, damaged archives, endless answers, and answers that repeat the key."""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pipeline
from pipeline.config import masking
from pipeline.errors import BackcastError, Refused, Unfinished
from pipeline.fetch.checking import count_archived_lines, count_events
from pipeline.http import CutOff
from pipeline.options import PlanOptions
from tests.fetch.test_fetch import APIS
from tests.support.export_apis import KEYS, exporting, fetch, fetched, in_archive, instead, plain
from tests.support.scripted_server import Canned

LINES = b"".join(b'{"event":"Step %d","properties":{"time":%d,"a":"\xc3\xa9"}}\n' % (n % 3, n) for n in range(8))
MEBIBYTE = 1 << 20


def not_text(lines: bytes) -> bytes:
    """A byte that is not UTF-8 in an id of the first line, in an event's name and in the last line."""
    first, *others, last = lines.splitlines(keepends=True)
    others[0] = others[0].replace(b"Step", b"Ste\xffp")
    return b"".join([first.replace(b"u-", b"u-\xff"), *others, last.replace(b"i", b"\xe9", 1)])


@pytest.mark.parametrize(("name", "spoil"), [("mixpanel", plain), ("amplitude", in_archive)])
def test_bytes_that_are_not_text_are_kept_and_their_rows_rejected(
    name: str, spoil: Callable[[Callable[[bytes], bytes]], Callable[[Canned], Canned]], tmp_path: Path
) -> None:
    """The tool gives the same bytes however often it is asked: the fetch ends, and the plan says which rows they are
    in."""
    api = replace(APIS[name], faults=dict.fromkeys(range(99), spoil(not_text)))
    with exporting(api) as server:
        found = fetch(api, server, tmp_path / "export", count=False)
    plan = pipeline.plan_export(tmp_path / "export", tmp_path / "plan", PlanOptions(workers=0, max_rejects="100%"))
    assert plan.rows.read == found.rows
    assert plan.rejects == {"bad_utf8": 3}


def test_bytes_of_posthog_that_are_not_text_are_kept(tmp_path: Path) -> None:
    """In the JSON of the properties, in an id, and in properties that are nested too deeply to be opened."""

    def changed(said: Canned) -> Canned:
        body = json.dumps(said.body).encode()
        deep = b'{\\"x\\": ' + b"[" * 5_000 + b"]" * 5_000 + b', \\"price'
        for before, after in ((b'{\\"price', b'{\\"pr\xffice'), (b'"u-3"', b'"u-\xff"'), (b'{\\"price', deep)):
            body = body.replace(before, after, 1)
        return replace(said, body=body)

    api = replace(APIS["posthog"], faults={1: changed})
    found, _ = fetched(api, tmp_path / "export")
    plan = pipeline.plan_export(tmp_path / "export", tmp_path / "plan", PlanOptions(workers=0, max_rejects="100%"))
    assert plan.rows.read == found.rows
    assert plan.rejects["bad_utf8"] == 2
    assert plan.rows.rejected in (2, 3)


def test_a_count_that_is_not_text_is_ignored(tmp_path: Path) -> None:
    """Mixpanel's count of an event whose name has a byte that is not UTF-8: a warning, and the files are written."""
    warnings: list[str] = []
    fault = instead(200, b'[{"key": ["Step \xff"], "value": 1}]')
    found, _ = fetched(replace(APIS["mixpanel"], faults={1: fault}), tmp_path, warn=warnings.append)
    assert found.rows
    assert "gives no counts" in warnings[0]


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(LINES) - 1), byte=st.integers(0x80, 0xFF))
def test_one_byte_of_a_line_costs_no_other_row(tmp_path_factory: pytest.TempPathFactory, at: int, byte: int) -> None:
    """The number of rows is the same, unless the byte was part of the structure of the last line, or before it."""
    file = tmp_path_factory.getbasetemp() / "one-byte.jsonl"
    file.write_bytes(LINES[:at] + bytes([byte]) + LINES[at + 1 :])
    try:
        counts = count_events(file)
    except CutOff:
        assert at >= LINES.rindex(b"\n", 0, -1)
        return
    assert counts.total() == 8 - (LINES[at : at + 1] == b"\n" and at != len(LINES) - 1)


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive_is_one_that_was_cut_off(kind: int, tmp_path: Path) -> None:
    """Each byte of it is changed in turn: it is asked for again, whatever the decompressor makes of it."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", kind) as archive:
        for name in ("one.json", "two.json.gz"):
            archive.writestr(name, gzip.compress(LINES, mtime=0) if name.endswith("gz") else LINES)
    whole, file, damaged = content.getvalue(), tmp_path / "export.zip", 0
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xA5]) + whole[at + 1 :])
        try:
            count_archived_lines(file)
        except CutOff:
            damaged += 1
    assert damaged > 200


def test_an_archive_that_stays_damaged_leaves_the_fetch_unfinished(tmp_path: Path) -> None:
    """Exit 6, with what is damaged; the other hours are there."""

    def spoilt(said: Canned) -> Canned:
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_LZMA) as archive:
            archive.writestr("7/one.json", LINES)
        body = bytearray(content.getvalue())
        body[60:70] = b"\xff" * 10
        return replace(said, body=bytes(body))

    api = replace(APIS["amplitude"], faults=dict.fromkeys(range(500), spoilt))
    with pytest.raises(Unfinished, match="cut off or damaged"):
        fetched(api, tmp_path)


BOMB = gzip.compress(bytes(400 * MEBIBYTE), 9)
LONG = bytes(100 * MEBIBYTE)


@pytest.mark.parametrize("name", APIS)
@pytest.mark.parametrize("coding", ["", "gzip", "zstd", "gzip, gzip"])
def test_an_answer_without_an_end_is_read_to_its_first_words(name: str, coding: str, tmp_path: Path) -> None:
    """A refusal has a short message; what comes after it takes no memory, compressed or not."""
    body, headers = (BOMB, {"Content-Encoding": coding}) if coding else (LONG, {})
    api = replace(APIS[name], faults=dict.fromkeys(range(9), instead(401, body, headers)))
    with exporting(api) as server:
        tracemalloc.start()
        try:
            with pytest.raises(Refused, match="401"):
                fetch(api, server, tmp_path)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 8 * MEBIBYTE


def test_the_words_of_a_refusal_are_shown_without_their_gzip(tmp_path: Path) -> None:
    """For a damaged answer the status remains, which says that trying again does not help."""
    for body, words in ((gzip.compress(b"no such project"), "401: no such project"), (b"\x1f\x8bxx", "401$")):
        fault = instead(401, body, {"Content-Encoding": "gzip"})
        with pytest.raises(Refused, match=words):
            fetched(replace(APIS["mixpanel"], faults={0: fault}), tmp_path / words)


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "percent": lambda text: quote(text, safe=""),
    "percent, all": lambda text: "".join(f"%{ord(one):02x}" for one in text),
    "percent, twice": lambda text: quote(quote(text, safe=""), safe=""),
    "json": lambda text: json.dumps(text)[1:-1],
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "json, all": lambda text: "".join(f"\\u{ord(one):04X}" for one in text),
    "json, slashes": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "html, numbers": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "html, hex": lambda text: "".join(f"&#x{ord(one):x};" for one in text),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, URL-safe": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64, no padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "base64, in a URL": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64, in JSON": lambda text: base64.b64encode(text.encode()).decode().replace("/", "\\/"),
}


@settings(max_examples=400, deadline=None)
@given(
    secret=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=12, max_size=40),
    around=st.tuples(st.text("user:=", max_size=4), st.text("end", max_size=4)),
    form=st.sampled_from(sorted(FORMS)),
)
def test_a_secret_is_masked_in_every_form(secret: str, around: tuple[str, str], form: str) -> None:
    """Also if it is a part of what was encoded, as a password is of `user:password`. In base64, a bit or two of the
    first and the last character may remain."""
    before, after = around
    shown = masking(secret).sub("***", f"said {FORMS[form](before + secret + after)} end")
    assert "***" in shown
    assert len(shown) <= len(f"said {FORMS[form](before)}***{FORMS[form](after)} end") + 8
    assert masking(secret).sub("***", "said nothing of it") == "said nothing of it"
    assert masking("", "").sub("***", "said nothing of it") == "said nothing of it"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", APIS)
def test_an_answer_that_repeats_the_key_shows_none(name: str, form: str, tmp_path: Path) -> None:
    """A gateway that prints the request does this: the keys, and the header that is made of them."""
    keys = [value for key, value in KEYS.items() if name.upper() in key]
    words = " ".join(FORMS[form](one) for one in (*keys, ":".join(keys)))
    words += " Basic " + base64.b64encode(":".join(keys).encode()).decode()
    onward = {"Location": f"https://{quote(':'.join(keys))}@other.example/"}
    for status in (401, 302, 500):
        api = replace(APIS[name], faults=dict.fromkeys(range(99), instead(status, words.encode(), onward)))
        with exporting(api) as server, pytest.raises(BackcastError) as caught:
            fetch(api, server, tmp_path / str(status), retry_for=0.001)
        shown = f"{caught.value} {caught.value.hint}"
        assert "***" in shown
        assert all(FORMS[form](key) not in shown and key not in shown for key in keys)
        assert base64.b64encode(":".join(keys).encode()).decode()[:12] not in shown
        assert html.unescape(shown) == shown
