"""The pairs of ids that a source shows: in an ordinary row, in a record that states a merge, or in the operator's file.

Pairs are appended to the scratch database and aggregated there, so memory does not grow with the people of an export
(docs/know/promises.md#constant-memory).

The operator's pairs (`--identities FILE`) are CSV with `anonymous_id,user_id`, or the same as JSON lines. They override
the rules, because a person wrote them down, so a file that contradicts itself stops the plan.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import pyarrow as pa

from pipeline.errors import UsageError
from pipeline.identity.database import Database, write_batches
from pipeline.identity.kinds import KINDS, NEVER, PLACE_SHIFT
from pipeline.timestamps import lost_digits
from pipeline.validator.placeholder_ids import is_placeholder
from pipeline.validator.rules import MAX_ID

ROW, IDENTIFY, ALIAS, MERGE, SERVICE, PERSON = (
    KINDS[kind] for kind in ("row", "identify", "alias", "merge", "service", "person")
)
NAMED, SETTLED, SETTLED_USER = 16, 32, 64
"""Why two ids are paired, as bits; a pair's kinds are added up.

ROW: an ordinary row has the id of a device and that of a user. IDENTIFY: a record states that `user` absorbs the device
`anonymous`. ALIAS: a record states that `user` is kept and `anonymous` is another id of the same person, whether or not
they are users' ids; with IDENTIFY, `user` is a user's id. MERGE: a record states that two ids are equal, without order.
"seen": an ordinary row has both, without order. SERVICE: a record of the service itself, which refused it if
`anonymous` was identified before; with IDENTIFY and ALIAS, one that it never refuses. NAMED: the operator named the
pair. SETTLED: an earlier plan merged the ids, with SETTLED_USER if `user` was a user's id. PERSON: `anonymous` is an id
of the person with the tool's number `user` (`pipeline.models.Link`); these pairs are replaced when pairs are
aggregated.
"""
EARLIER = SETTLED | SETTLED_USER
PART_SHIFT = 40
NAMED_PART = (1 << 22) - 1
"""The part number of the operator's file."""
PAIRS = pa.schema(
    [("anonymous", pa.string()), ("owner", pa.string())]
    + [(name, pa.int64()) for name in ("kinds", "first", "last", "events", "place")]
)
"""A pair of ids: its kinds, added up; µs UTC of its first and last row, NEVER and its negative if no row has a time;
its number of rows; and the place of the earliest, which is the number of its part shifted left by PART_SHIFT plus the
number of the row in the part, from 1."""


class ObservedPair(NamedTuple):
    """A pair of ids that some rows of one block show.

    `kind` is a value of KINDS; `first` and `last` are in µs UTC, NEVER and its negative if the rows have no time;
    `events` counts the rows; `row` is the number of the earliest of them in its part, from 1.
    """

    anonymous: str
    user: str
    kind: int
    first: int
    last: int
    events: int
    row: int


class ObservedPairs:
    """Collects the pairs of a source. Ids have no lone surrogates; everything else is checked later, by the rules."""

    def __init__(self, database: Database) -> None:
        self.database = database
        database.run(
            "CREATE TABLE observed (anonymous VARCHAR, owner VARCHAR, kinds BIGINT, first BIGINT, last BIGINT,"
            " events BIGINT, place BIGINT)"
        )

    def add_rows(self, rows: str) -> None:
        """Add the pairs that rows show, from the SQL table `rows`: anonymous, user, kind, time (NEVER for none), and
        the block and row of each. Table `blocks` has the part and the first row of each block.

        They are in table `paired` too, each pair once, with the place of its earliest row (PLACE_SHIFT; the least one
        if several rows are earliest).
        """
        packed = f"(time::HUGEINT * {1 << 64}::HUGEINT + (block::BIGINT << {PLACE_SHIFT} | row))"
        self.database.run(
            'CREATE TABLE paired AS SELECT anonymous, "user" AS owner, CAST(bit_or(kind) AS BIGINT) AS kinds,'
            f" min(time) AS first, max(CASE WHEN time = {NEVER} THEN -{NEVER} ELSE time END) AS last,"
            f" count(*) AS events, CAST(min({packed}) - min(time)::HUGEINT * {1 << 64}::HUGEINT AS BIGINT) AS place"
            f' FROM {rows} GROUP BY anonymous, "user"'
        )
        self.database.run(
            "INSERT INTO observed SELECT anonymous, owner, kinds, first, last, events,"
            f" (part << {PART_SHIFT}) + first_row + (place & {(1 << PLACE_SHIFT) - 1})"
            f" FROM paired JOIN blocks ON block = place >> {PLACE_SHIFT}"
        )

    def add(self, part: int, pairs: Iterable[ObservedPair]) -> None:
        """Add the pairs of a part."""
        self.database.insert("observed", ((*pair[:-1], (part << PART_SHIFT) + pair.row) for pair in pairs))

    def aggregate(self) -> None:
        """Replace table `observed` by table `pairs`: each pair once, sorted, with the place of its earliest row.

        The earliest place is the least of (time, part, row), packed into one number so that ties have one answer.
        """
        self._join_by_persons()
        self.database.run(
            "CREATE TABLE pairs AS SELECT anonymous, owner, bit_or(kinds) AS kinds, min(first) AS first,"
            " max(last) AS last, CAST(sum(events) AS BIGINT) AS events,"
            " CAST(min(first::HUGEINT * 18446744073709551616::HUGEINT + place)"
            "  - min(first)::HUGEINT * 18446744073709551616::HUGEINT AS BIGINT) AS place"
            " FROM observed GROUP BY anonymous, owner ORDER BY anonymous, owner"
        )
        self.database.drop("observed")

    def _join_by_persons(self) -> None:
        """Replace pairs of an id and a person's number by pairs of ids: a star around one id of each person.

        If several rows are about one id, the one with the latest version counts. The centre is a user's id if one is
        known, so that two users of one person are joined; otherwise it is the least id.
        """
        if not self.database.number(f"SELECT count(*) FROM observed WHERE kinds = {PERSON}"):
            return
        self.database.run(
            "INSERT INTO observed WITH stated AS (SELECT *, CAST(split_part(owner, chr(31), 1) AS BIGINT) AS version"
            f" FROM observed WHERE kinds = {PERSON}),"
            " latest AS (SELECT anonymous AS id, arg_max(substr(owner, strpos(owner, chr(31)) + 1), (version, owner))"
            "  AS person, min(first) AS first, max(last) AS last, CAST(sum(events) AS BIGINT) AS events,"
            "  min(place) AS place FROM stated GROUP BY anonymous),"
            " users AS (SELECT DISTINCT owner AS id FROM observed"
            f"  WHERE kinds & {ROW | IDENTIFY | SERVICE | NAMED | SETTLED_USER} <> 0),"
            " near AS (SELECT latest.*, first_value(latest.id)"
            "  OVER (PARTITION BY person ORDER BY users.id IS NULL, latest.id) AS middle"
            "  FROM latest LEFT JOIN users ON users.id = latest.id)"
            f" SELECT id, middle, {MERGE}, first, last, events, place FROM near WHERE id <> middle"
        )
        self.database.run(f"DELETE FROM observed WHERE kinds = {PERSON}")

    def move_to(self, path: Path) -> int:
        """Move table `pairs` to an Arrow file with schema PAIRS, out of the database's memory. Returns how many pairs
        it has."""
        count = self.database.number("SELECT count(*) FROM pairs")
        write_batches(self.database.stream("SELECT * FROM pairs"), PAIRS, path)
        self.database.drop("pairs")
        return count


class EarlierLink(NamedTuple):
    """A link that an earlier plan for the same target sealed: `distinct_id` absorbs `other`.

    `state` is `settled`, `in_doubt` (sent, but the answer is unknown) or `unsent`; `time` is its date, µs UTC.
    """

    distinct_id: str
    other: str
    kind: str
    time: int
    state: str


_FORM = "write anonymous_id,user_id as the first line and one pair per line below it, or one JSON object per line"


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    anonymous_id: str
    user_id: str


def add_pair_file(observed: ObservedPairs, path: Path) -> int:
    """Add the operator's pairs to those of the source. Returns how many there are.

    Raises UsageError, with file and line, if the file cannot be read, an id is a placeholder or too long, an anonymous
    id occurs twice, or an id is anonymous in one line and a user in another.
    """
    database = observed.database
    database.run("CREATE TABLE named (anonymous VARCHAR, owner VARCHAR, line BIGINT)")
    database.insert("named", ((anonymous, user, line) for line, anonymous, user in read_pairs(path)))
    twice = database.rows(
        "SELECT anonymous, min(line), max(line) FROM named GROUP BY 1 HAVING count(*) > 1 ORDER BY 3 LIMIT 1"
    )
    for one, first, line in twice:
        raise _wrong(path, line, f"{one!r} was already paired in line {first}", "remove one of the two lines")
    both = database.rows(
        "SELECT id, min(anonymous), min(owner) FROM"
        " (SELECT anonymous AS id, line AS anonymous, NULL AS owner FROM named"
        " UNION ALL SELECT owner, NULL, line FROM named)"
        " GROUP BY id HAVING min(anonymous) IS NOT NULL AND min(owner) IS NOT NULL ORDER BY 2, 1 LIMIT 1"
    )
    for one, line, user in both:
        problem = f"{one!r} is an anonymous id here and a user's id in line {user}"
        raise _wrong(path, line, problem, "use the person's last id as the user_id in both lines")
    database.run(
        f"INSERT INTO observed SELECT anonymous, owner, {NAMED}, {NEVER}, {-NEVER}, 0,"
        f" {NAMED_PART << PART_SHIFT} + line FROM named"
    )
    count = database.number("SELECT count(*) FROM named")
    database.drop("named")
    return count


def read_pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, anonymous id, user id) of each pair, exactly as written. Raises UsageError with file and line."""
    try:
        with path.open("rb") as file:
            start = file.peek(4096)[:4096]
            text = start.removeprefix(b"\xef\xbb\xbf")
            file.seek(len(start) - len(text))
            read = _json_pairs if text.lstrip()[:1] == b"{" else _csv_pairs
            with closing(read(path, file)) as pairs:
                for line, anonymous, user in pairs:
                    problem = pair_problem(anonymous, user)
                    if problem:
                        raise _wrong(path, line, problem, "correct or remove the line")
                    yield line, anonymous, user
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", hint="check the path that --identities names"
        ) from None


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
            raise _wrong(path, 1, "the first line does not name anonymous_id and user_id", _FORM)
        if len(header) != 2:
            raise _wrong(path, 1, "there are columns other than anonymous_id and user_id", _FORM)
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


def pair_problem(anonymous: str, user: str) -> str:
    """Why the operator may not join two ids, "" if they may be joined."""
    for one in (anonymous, user):
        if is_placeholder(one):
            return f"{one!r} is a placeholder, under which strangers would become one person"
        if lost_digits(one):
            return f"{one!r} has lost its last digits in a spreadsheet"
        if len(one) > MAX_ID or "\0" in one:
            return f"the service would change an id of {len(one)} characters, or with a NUL"
    return f"{user!r} is paired with itself" if anonymous == user else ""


def _wrong(path: Path, line: int, problem: str, hint: str) -> UsageError:
    return UsageError(f"{problem}, at {path}:{line}", hint=hint)
