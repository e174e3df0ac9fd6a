"""The ledger: the durable record of sending, one SQLite file in the plan directory, written ahead of every request.

The protocol (docs/know/promises.md#write-ahead): `begin` is durable before a byte leaves, and comes only when a
connection may send the batch; `settle` records its answer when it comes. At no commit have more batches begun without
being settled than requests may be in flight (`--max-concurrency`). So after a crash at most that many are *in doubt*.
They are sent again, before all others, with the same events and uuids.

You can read it even during a run: `sqlite3 -readonly ledger.sqlite 'select * from batches'`. Its tables:

`meta`: what the ledger belongs to, as (key, value).

    version       of this schema
    plan, target  the plan's digest and the address to which it is sent
    created       when
    id, opened    a random name, and how often a run opened it: sent-to.json next to it has the same (`ledger.marker`)
    key_salt,     recognise the capture key without storing it: scrypt of the key, hex
    key_check
    project       the id of the project; absent until `apply` knows it for sure
    transport     how batches travel: `batch` (to /batch/) or `v1` (the per-event endpoint); chosen once
    batch_bytes   the largest request that the service accepts; absent until it refused a larger one

`runs`: one row for each apply: `started`, `ended`, `version` of backcast, `outcome` (done, stopped, failed; null during
the run or if it was killed).

`batches`: one row for each request that was begun, or for each piece of one that had to be cut: (`phase`, `request`,
`first`, `last`) are the number of the request in its phase, and its events, counted from 0, both inclusive. `bytes`
before gzip, `tries` over all runs, counted as they ended, `status` of the last answer (null: none ever came), `detail`
of the last try, the `run` that last began it, `begun` and `ended`. Its `state`:

    begun      about to be sent, in flight, or in doubt
    settled    accepted
    refused    one event, refused permanently
        split      sent in pieces, which are rows of their own; or settled once, with events that a repair sends again
        waiting    to be sent unchanged; the service took nothing of it, unless a larger request that contained it was
                   answered 413: then the service may have stored the beginning of that request. Or it was settled, did
                   not land, and a repair sends it again: then it has the status of its first answer, or none

If the service answers for each event and treated the events of a batch differently, that answer splits the batch: its
accepted ranges are rows that were never sent by themselves (`bytes` and `tries` 0), and ranges to be sent again wait,
each as a row although one request has them all.

`event_warnings`: events that the service accepted with a warning: its `detail`, how many `events`, the uuid of one.

`refused_events`: what the service refused: (`phase`, `request`, `event`), its `uuid`, the `status` and the `detail`.

`tries`: one row for each request that did not settle its batch: the batch's four columns, the `run`, the number of the
`try` in it, `at`, `seconds` it took, `status` (null: no answer; 0: no connection, so nothing was sent) and `detail`.

All times are UTC. Questions a person asks:

    what is in doubt     select * from batches where state = 'begun'
    what was refused     select uuid, status, detail from refused_events
    what went wrong      select status, count(*), max(at) from tries group by status
    which batches retry  select * from batches where tries > 1
"""

from pipeline.ledger.discard import check_nothing_sent, discard
from pipeline.ledger.marker import Marker, marker_of, read_marker, was_ever_applied, write_marker
from pipeline.ledger.opening import is_locked, key_fingerprint, lock_file, unlock
from pipeline.ledger.queries import (
    LedgerSummary,
    RunHistory,
    SendingRate,
    check_project,
    check_target,
    read_batches,
    read_doubts,
    read_events_sent,
    read_last_settled,
    read_project,
    read_rate,
    read_refused_events,
    read_summary,
    read_totals,
    read_unanswered,
    state_digest,
)
from pipeline.ledger.reopening import reopen
from pipeline.ledger.schema import (
    VERSION,
    BatchKey,
    EventRecord,
    FailureCount,
    InDoubtBatch,
    PhaseTotals,
    Refusal,
    RefusalRecord,
    Totals,
    WarningCount,
)
from pipeline.ledger.writer import Ledger

__all__ = [
    "VERSION",
    "BatchKey",
    "EventRecord",
    "FailureCount",
    "InDoubtBatch",
    "Ledger",
    "LedgerSummary",
    "Marker",
    "PhaseTotals",
    "Refusal",
    "RefusalRecord",
    "RunHistory",
    "SendingRate",
    "Totals",
    "WarningCount",
    "check_nothing_sent",
    "check_project",
    "check_target",
    "discard",
    "is_locked",
    "key_fingerprint",
    "lock_file",
    "marker_of",
    "read_batches",
    "read_doubts",
    "read_events_sent",
    "read_last_settled",
    "read_marker",
    "read_project",
    "read_rate",
    "read_refused_events",
    "read_summary",
    "read_totals",
    "read_unanswered",
    "reopen",
    "state_digest",
    "unlock",
    "was_ever_applied",
    "write_marker",
]
