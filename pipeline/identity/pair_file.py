"""The operator's own pairs (`--identities FILE`): CSV with `anonymous_id,user_id`, or the same as JSON lines.

They override the rules, because a person wrote them down, so a file that contradicts itself stops the plan.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec

from pipeline.errors import UsageError
from pipeline.identity.accumulators import NEVER
from pipeline.identity.database import ROWS_AT_ONCE, numbers, texts
from pipeline.identity.observed_pairs import NAMED, NAMED_PART, PART_SHIFT, ObservedPairs
from pipeline.timestamps import lost_digits
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.validator.rules import MAX_ID

_FORM = "write anonymous_id,user_id as the first line and one pair a line below, or one JSON object a line"


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    anonymous_id: str
    user_id: str


def add_pair_file(observed: ObservedPairs, path: Path) -> int:
    """Add the operator's pairs to those of the source. Returns their number.

    Raises UsageError naming file and line where the file cannot be read, an id is a placeholder or too long, an
    anonymous id occurs twice, or an id is anonymous in one line and a user in another.
    """
    database = observed.database
    database.run("CREATE TABLE named (anonymous VARCHAR, owner VARCHAR, line BIGINT)")
    pairs = read_pairs(path)
    while some := list(islice(pairs, ROWS_AT_ONCE)):
        lines, anonymous, users = zip(*some, strict=True)
        columns = {"anonymous": texts(anonymous), "owner": texts(users), "line": numbers(lines)}
        database.append("named", columns)
    twice = database.rows(
        "SELECT anonymous, min(line), max(line) FROM named GROUP BY 1 HAVING count(*) > 1 ORDER BY 3 LIMIT 1"
    )
    for one, first, line in twice:
        raise _wrong(path, line, f"{one!r} is claimed again, after line {first}", "leave one of the two lines out")
    both = database.rows(
        "SELECT id, min(anonymous), min(owner) FROM"
        " (SELECT anonymous AS id, line AS anonymous, NULL AS owner FROM named"
        " UNION ALL SELECT owner, NULL, line FROM named)"
        " GROUP BY id HAVING min(anonymous) IS NOT NULL AND min(owner) IS NOT NULL ORDER BY 2, 1 LIMIT 1"
    )
    for one, line, user in both:
        problem = f"{one!r} is an anonymous id here and a user's in line {user}"
        raise _wrong(path, line, problem, "name the person's last id as the user_id of both")
    database.run(
        f"INSERT INTO observed SELECT anonymous, owner, {NAMED}, {NEVER}, {-NEVER}, 0,"
        f" {NAMED_PART << PART_SHIFT} + line FROM named"
    )
    count = database.number("SELECT count(*) FROM named")
    database.drop("named")
    return count


def read_pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, anonymous id, user id) of each pair, exactly as written. Raises UsageError naming file and line."""
    try:
        with path.open("rb") as file:
            start = file.peek(4096)[:4096]
            text = start.removeprefix(b"\xef\xbb\xbf")
            file.seek(len(start) - len(text))
            read = _json_pairs if text.lstrip()[:1] == b"{" else _csv_pairs
            with closing(read(path, file)) as pairs:
                for line, anonymous, user in pairs:
                    problem = _problem(anonymous, user)
                    if problem:
                        raise _wrong(path, line, problem, "correct the line, or leave it out")
                    yield line, anonymous, user
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="give --identities a file that exists") from None


def _json_pairs(path: Path, file: BinaryIO) -> Generator[tuple[int, str, str], None, None]:
    decode = msgspec.json.Decoder(_Line).decode
    for line, text in enumerate(file, 1):
        if text.isspace():
            continue
        try:
            one = decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _wrong(path, line, f"not a pair: {error}", _FORM) from None
        yield line, one.anonymous_id, one.user_id


def _csv_pairs(path: Path, file: BinaryIO) -> Generator[tuple[int, str, str], None, None]:
    text = io.TextIOWrapper(file, "utf-8", newline="")
    reader = csv.reader(text, strict=True)
    line = 1
    try:
        header = next(reader, [])
        if not {"anonymous_id", "user_id"} <= set(header):
            raise _wrong(path, 1, "the first line names no anonymous_id and user_id", _FORM)
        if len(header) != 2:
            raise _wrong(path, 1, "there are other columns beside anonymous_id and user_id", _FORM)
        anonymous = header.index("anonymous_id")
        line = reader.line_num + 1
        for cells in reader:
            if cells and len(cells) != 2:
                raise _wrong(path, line, f"{len(cells)} cells instead of 2", _FORM)
            if cells:
                yield line, cells[anonymous], cells[1 - anonymous]
            line = reader.line_num + 1
    except (csv.Error, UnicodeDecodeError) as error:
        raise _wrong(path, line, f"not CSV in UTF-8: {error}", _FORM) from None
    finally:
        text.detach()


def _problem(anonymous: str, user: str) -> str:
    for one in (anonymous, user):
        if is_placeholder(one):
            return f"{one!r} is a placeholder, which the service never merges"
        if lost_digits(one):
            return f"{one!r} has lost its last digits in a spreadsheet"
        if len(one) > MAX_ID or "\0" in one:
            return f"an id of {len(one)} characters, or with a NUL, is changed by the service"
    return f"{user!r} is paired with itself" if anonymous == user else ""


def _wrong(path: Path, line: int, problem: str, hint: str) -> UsageError:
    return UsageError(f"{problem}, at {path}:{line}", hint=hint)
