"""Rows as no tool ever wrote them: real sample rows, mutated in their bytes, tokens, names and numbers from a seed."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import fastavro

SAMPLES = Path(__file__).resolve().parent.parent.parent / "sample_data"
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[{}\[\]:,]|true|false|null')
NAME = re.compile(rb'("(?:[^"\\]|\\.)*")\s*:')

NUMBERS = [
    b"0", b"-0", b"-0.0", b"1.10", b"1.", b".5", b"01", b"+1", b"0x1", b"1e5", b"1E+05", b"1e-7", b"1e99", b"1e100",
    b"1e308", b"1.7976931348623157e308", b"1.7976931348623159e308", b"1e309", b"1e400", b"-1E400", b"0e400", b"1e-400",
    b"9007199254740992", b"9007199254740993", b"-9007199254740993", b"1234567890123456.5", b"1234567890123456e1",
    b"12345678901234567890", b"1e00000000000000000001", b"0.1234567890123456789", b"1" * 40, b"1" * 308, b"1" * 309,
    b"9" * 309, b"1" * 310 + b"e99", b"1" * 310 + b"e-99", b"1" * 310 + b".5e-9", b"1" * 400, b"-" + b"7" * 400,
    b"1" * 4400, b"1" * 4400 + b"e-4300", b"0." + b"0" * 400 + b"1e500", b"1e99999999999999999999", b"NaN", b"Infinity",
    b"-", b"1640995201", b"1640995201000", b"1640995201.123456789", b"-1", b"253402300800", b"99999999999999999",
]  # fmt: skip
STRINGS = [
    b'""', b'" "', b'"a"', b'"\\u0000"', b'"a\\u0000b"', b'"\\ud800"', b'"\\udc00x"', b'"\\ud83d\\ude00"', b'"\\u00e9"',
    b'"\\n\\t\\/\\b\\f\\r\\"\\\\"', b'"\xc3\xa9\xe7\x81\xaf\xf0\x9f\x98\x80"', b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"',
    b'"tab\there"', b'"open', b'"\\x"', b'"\\u12"', b'"a\\":1"', b'"a\\" :1"', b'"\x7f\xc2\x85"', b'"null"', b'"true"',
    b'"anonymous"', b'"undefined"', b'"00000000-0000-0000-0000-000000000000"', b'"' + b"x" * 201 + b'"', b'" u"',
    b'"2023-01-02 03:04:05.678901"', b'"2023-01-02T03:04:05+05:30"', b'"2023-13-02T03:04:05Z"',
    b'"2023-10-29 02:30:00"',
    b'"9007199254740993"', b'"1e400"', b'"' + b"1" * 310 + b'e99"', b'"' + b"1" * 5000 + b'"', b'"{\\"a\\":1}"',
    b'"{\\"a\\":1e400,\\"b\\":[1]}"', b'"[1,2"', b'"[\\"a\\",1e999]"', b'"{\\"a\\":' + b"[" * 200 + b"]" * 200 + b'}"',
    b'"{\\"a\\":\\"\\\\ud800\\"}"', b'"{\\"x\\":' + b"1" * 400 + b'}"', b'"\xe2\x80\xa8"', b'"q\\"uote"',
    b'"' + b"1" * 17 + b'"',
]  # fmt: skip
WORDS = [b"null", b"true", b"false", b"[]", b"{}", b"[1,]", b"{,}", b"nul", b"", b"[null]", b'{"":1}', b'{"a":1,"a":2}']
NAMES = [
    b'"na\\"me"', b'"a\\u0000"', b'"\\u0001"', b'"b\\\\"', b'""', b'"\\u0061"', b'"e\\u0076ent"', b'"a b"', b'"$set"',
    b'"$groups"', b'"$ip"', b'"distinct_id"', b'"$geoip_disable"', b'"historical_migration"', b'"$set_once"',
    b'"\xc3\xa9"',
    b'"\xf0\x9f\x98\x80"', b'"x\\":y"', b'"' + b"n" * 1001 + b'"', b'"\\ud800"', b'"$unset"', b'"uuid"', b'"timestamp"',
]  # fmt: skip
SPACES = [b" ", b"\t", b"\r", b"  ", b"\x0b", b"\xc2\xa0", b"\x00"]


def sample_rows(tool: str) -> list[bytes]:
    """The rows of a tool's samples as JSON lines: what mutations begin with."""
    return list(_sample_rows(tool))


@cache
def _sample_rows(tool: str) -> tuple[bytes, ...]:
    folder = SAMPLES / {"segment-warehouse": "segment", "rudderstack-warehouse": "rudderstack"}.get(tool, tool)
    found: list[bytes] = []
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        if path.suffix in (".gz", ".jsonl", ".json") and not path.name.endswith(".csv.gz"):
            found += content.splitlines()
        elif path.suffix == ".avro":
            found += (json.dumps(row, default=str).encode() for row in fastavro.reader(io.BytesIO(content)))
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    found += gzip.decompress(archive.read(name)).splitlines()
        elif path.name.endswith((".csv", ".csv.gz")) and tool != "segment":
            found += (
                json.dumps({name: cell for name, cell in row.items() if name}).encode()
                for row in csv.DictReader(io.StringIO(content.decode("utf-8")))
            )
    return tuple(one for one in found if one.startswith(b"{") and len(one) < 20_000)


class Mutator:
    """Mutates rows; everything that it does follows from its seed."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self._ways: list[Callable[[bytes], bytes]] = [
            self._value, self._value, self._value, self._value, self._name, self._repeated, self._repeated,
            self._spaced, self._bytes, self._cut, self._nested, self._added, self._added, self._swapped, self._escaped,
            self._pair, self._led, self._joined,
        ]  # fmt: skip

    def rows(self, base: list[bytes], count: int) -> list[bytes]:
        """This many rows; a quarter of them unchanged, so that the usual paths are taken as well."""
        made = []
        for _ in range(count):
            row = self.chance.choice(base)
            for _ in range(self.chance.choice((0, 1, 1, 1, 2, 3))):
                row = self.chance.choice(self._ways)(row)
            made.append(row.replace(b"\n", b" "))
        return made

    def _odd(self) -> bytes:
        return self.chance.choice(self.chance.choice((NUMBERS, STRINGS, WORDS)))

    def _token(self, row: bytes, wanted: Callable[[bytes], bool]) -> tuple[int, int] | None:
        found = [one.span() for one in TOKEN.finditer(row) if wanted(one.group())]
        return self.chance.choice(found) if found else None

    def _value(self, row: bytes) -> bytes:
        """Another value in place of one."""
        values = [one for one in TOKEN.finditer(row) if one.group()[:1] not in b"{}[]:," and _is_value(row, one)]
        if not values:
            return row
        start, end = self.chance.choice(values).span()
        return row[:start] + self._odd() + row[end:]

    def _name(self, row: bytes) -> bytes:
        """Another name in place of one."""
        names = list(NAME.finditer(row))
        if not names:
            return row
        start, end = self.chance.choice(names).span(1)
        return row[:start] + self.chance.choice(NAMES) + row[end:]

    def _repeated(self, row: bytes) -> bytes:
        """A member repeated, at the same level or at another, with the same value or another."""
        names = list(NAME.finditer(row))
        starts = [one.end() for one in re.finditer(rb"[{,]", row)]
        if not names or not starts:
            return row
        chosen = self.chance.choice(names)
        at = chosen.start(1) if self.chance.random() < 0.6 else self.chance.choice(starts)
        return row[:at] + chosen.group(1) + b":" + self._odd() + b"," + row[at:]

    def _added(self, row: bytes) -> bytes:
        """A member that the row did not have."""
        places = [one.end() for one in re.finditer(rb"\{", row)]
        if not places:
            return row
        at = self.chance.choice(places)
        comma = b"" if row[at : at + 1] == b"}" else b","
        return row[:at] + self.chance.choice(NAMES) + b":" + self._odd() + comma + row[at:]

    def _spaced(self, row: bytes) -> bytes:
        """White space, or what only looks like it, around punctuation."""
        span = self._token(row, lambda one: one in b"{}[]:,")
        if span is None:
            return row
        at = self.chance.choice(span)
        return row[:at] + self.chance.choice(SPACES) + row[at:]

    def _bytes(self, row: bytes) -> bytes:
        """A byte changed, inserted or removed."""
        at = self.chance.randrange(len(row) + 1)
        put = bytes([self.chance.randrange(256)]) if self.chance.random() < 0.7 else b""
        return row[:at] + put + row[at + self.chance.randrange(2) :]

    def _cut(self, row: bytes) -> bytes:
        """The row's beginning or its end, or only white space."""
        at = self.chance.randrange(len(row) + 1)
        return self.chance.choice((row[:at], row[at:], row + b"\r", b" \t", b"", row + b" ", row + b","))

    def _nested(self, row: bytes) -> bytes:
        """A value many levels deeper."""
        span = self._token(row, lambda one: one[:1] not in b"{}[]:,")
        if span is None:
            return row
        deep = self.chance.choice((1, 2, 30, 60, 61, 62, 63, 64, 65, 66, 130))
        opening, closing = self.chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
        return row[: span[0]] + opening * deep + row[slice(*span)] + closing * deep + row[span[1] :]

    def _swapped(self, row: bytes) -> bytes:
        """Two values swapped."""
        values = [one.span() for one in TOKEN.finditer(row) if _is_value(row, one)]
        if len(values) < 2:
            return row
        (first, end), (second, last) = sorted(self.chance.sample(values, 2))
        return row[:first] + row[second:last] + row[end:second] + row[first:end] + row[last:]

    def _escaped(self, row: bytes) -> bytes:
        """A letter of a string or name spelled as an escape."""
        found = [one.start() for one in re.finditer(rb"[A-Za-z](?=[^\"\\\\]*\")", row)]
        if not found:
            return row
        at = self.chance.choice(found)
        return row[:at] + b"\\u%04x" % row[at] + row[at + 1 :]

    def _pair(self, row: bytes) -> bytes:
        """A row of two members, one of them an object, the other with any name."""
        name = self.chance.choice((*NAMES, b'"event"', b'"name"'))
        start = row.find(b"{", 1)
        inner = row[start : row.rfind(b"}")] if start > 0 else b"{}"
        pair = [name + b":" + self._odd(), b'"properties":' + (inner or b"{}")]
        self.chance.shuffle(pair)
        return b"{" + b",".join(pair) + b"}"

    def _led(self, row: bytes) -> bytes:
        """Something before the row, or the row as a value by itself."""
        return self.chance.choice(
            (self._odd(), self._odd() + row, b"[" + row + b"]", b"\xef\xbb\xbf" + row, b" " + row)
        )

    def _joined(self, row: bytes) -> bytes:
        """Two rows on one line."""
        return row + self.chance.choice((b"", b" ", b",")) + row[: self.chance.randrange(len(row) + 1)]


def _is_value(row: bytes, token: re.Match[bytes]) -> bool:
    return row[: token.start()].rstrip()[-1:] in (b":", b"[", b",") and row[token.end() :].lstrip()[:1] != b":"
