"""Who is one person, and with which profile, from the rows and records of each tool that shows it.

Written from the documents alone. *people* is docs/use/people-and-groups.md, *exports* docs/know/exports.md, *service*
docs/know/service.md, *sources* the page of a tool below docs/use/sources, *reference* docs/use/mapping-reference.md,
*design* the design.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from tests.models.target import ANY_CASE, EXACT, Target, as_text, key_as_text

Row = Mapping[str, Any]


MISSING = frozenset(
    [r"\n", "n/a", "#n/a", "<null>", "<nil>", "<none>", "(null)", "(nil)", "(none)", "(undefined)", "(not set)"]
)
"""people#placeholder-ids, without the words that the service knows."""


class Policies(NamedTuple):
    """Who keeps a shared device, and what becomes of users whom a record joins: first, latest or none
    (people#several-users)."""

    shared: str = "first"
    joined: str = "first"


FIRST = Policies()


class Shown(NamedTuple):
    """What a row shows. `own` is the id of its event, or of its profile if it is not an event; `same` are ids of one
    person."""

    at: str
    own: str = ""
    is_event: bool = True
    device: tuple[str, str] | None = None
    """An anonymous id, "" if there is none, and its user."""
    same: tuple[str, ...] = ()
    user: str = ""
    """The user's id that it names."""
    writes: Row = MappingProxyType({})
    """Its effect on its person, as an event of the service."""
    group: tuple[str, str, Row] | None = None
    event: Row | None = None
    """The event of the service, if the tool is the service."""


def usable(name: object) -> str:
    """The id, or "" if it is a placeholder (people#placeholder-ids)."""
    if not isinstance(name, str):
        return ""
    bare = name.strip().lower()
    bare = bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "'\"" else bare
    return name if bare and bare not in MISSING | ANY_CASE | {str(UUID(int=0)), *map(str.lower, EXACT)} else ""


def with_ids(at: str, user: object, device: object, **more: Any) -> Shown:
    """A row with the id of a user, of a device, or both. An event keeps its next best id (exports#placeholder-values);
    an e-mail address is not a device (people#identity-resolution)."""
    known, other = usable(user), usable(device)
    pair = "" if "@" in other else other, known
    return Shown(at, known or other, device=pair if known and known != other else None, user=known, **more)


def amplitude(row: Row) -> Shown:
    """sources/amplitude, exports#amplitude-events: EMPTY means nothing; initial_… are written once."""
    given = {name: value for name, value in (row.get("user_properties") or {}).items() if value != "EMPTY"}
    once = {f"${name}": value for name, value in given.items() if name.startswith("initial_")}
    now = {name: value for name, value in given.items() if not name.startswith("initial_")}
    writes = {**(row.get("event_properties") or {}), "$set": now, "$set_once": once}
    return with_ids(row["event_time"], row["user_id"], row["device_id"], writes=writes)


def segment(row: Row) -> Shown:
    """sources/segment, exports#segment-events: an alias is a merge, a group call is not an event."""
    if row["type"] == "alias":
        return Shown(row["timestamp"], same=(usable(row["userId"]), usable(row["previousId"])))
    shown = with_ids(row["timestamp"], row["userId"], row["anonymousId"])
    if row["type"] == "group":
        return shown._replace(own="", group=("company", key_as_text(row["groupId"]), row["traits"]))
    if row["type"] == "track":
        return shown
    return shown._replace(is_event=False, writes={"$set": row["traits"]})


def braze(row: Row) -> Shown:
    """sources/braze: Braze's id and the customer's are merged once; UserOrphan is a merge of two of Braze's ids."""
    at, user = f"{row['time']:012}", row["user"]
    if row["event_type"] == "users.UserOrphan":
        return Shown(at, same=(usable(row["properties"]["orphaned_by_id"]), usable(user["user_id"])))
    return with_ids(at, user["external_user_id"], user["user_id"])


def mixpanel(row: Row) -> Shown:
    """sources/mixpanel#people: the label of the cluster is merged into the user; the three rows are merges."""
    name, given = row["event"], row["properties"]
    at = f"{given['time']:012}"
    if name == "$merge":
        return Shown(at, same=tuple(map(usable, given["$distinct_ids"])))
    if name == "$create_alias":
        return Shown(at, same=(usable(given["distinct_id"]), usable(given["alias"])))
    if name == "$identify":
        return with_ids(at, given["$identified_id"], given["$anon_id"])._replace(own="")
    once = {name: given[name] for name in ("$initial_referrer",) if name in given}
    user, sent = given.get("$user_id"), given["distinct_id"]
    return with_ids(at, user, None if sent == user else sent, writes={"$set_once": once})


def kissmetrics(row: Row) -> Shown:
    """sources/kissmetrics.md: _p2 is one person with _p; a row of neither sets nothing. A null is not a value."""
    at, more = f"{row['_t']:012}", {name: value for name, value in row.items() if name[0] != "_"}
    if row.get("_p2"):
        same = usable(row["_p2"]), usable(row["_p"])  # a merge without one of its ids has no effect
        return Shown(at, same=same, user=same[0] if all(same) else "")
    return Shown(at, usable(row["_p"]), bool(row.get("_n")), writes={} if row.get("_n") else {"$set": more})


def heap(row: Row) -> Shown:
    """sources/heap: migrations are merges; `identity` is one person with `user_id`, and each user has only one."""
    if "from_user_id" in row:
        return Shown(row["time"], same=(usable(row["to_user_id"]), usable(row["from_user_id"])))
    if "identity" in row:
        at, same = row["last_modified"], (row["identity"], row["user_id"]) if row["identity"] else ()
        who, writes = row["identity"] or row["user_id"], {"$set": {"plan": row["plan"]}}
        return Shown(at, who, False, same=same, writes=writes, user=row["identity"] or "")
    return Shown(row["time"], usable(row["user_id"]))


def countly(row: Row) -> Shown:
    """sources/countly.md: the person is `did`; those of one `uid` are one, and its number is not an id."""
    return Shown(str(row["ts"]), row["did"], same=(row["did"], f"#{row['uid']}"))


def openpanel(row: Row) -> Shown:
    """sources/openpanel.md; an alias is one of the tables, and so a record of two ids."""
    if "alias" in row:
        return Shown(row["created_at"], same=(usable(row["profile_id"]), usable(row["alias"])))
    alone = row["profile_id"] == row["device_id"]  # an anonymous profile has the id of its device
    shown = with_ids(row["created_at"], row["profile_id"], row["device_id"])
    return shown._replace(user="") if alone else shown


def posthog(row: Row) -> Shown:
    """sources/posthog: rows of the service itself."""
    if "person_version" in row:
        person = (as_text(row["distinct_id"]), f"#{row['person_id']}")
        return Shown(row["created_at"], same=person, writes={"$set": row["properties"]})
    given = row["properties"]
    ids = row["distinct_id"], given.get("alias", "-"), given.get("$anon_distinct_id", "-")
    event = {**row, "properties": given | {"distinct_id": row["distinct_id"]}} if all(map(usable, ids)) else None
    if row["event"] == "$groupidentify":
        group = (given["$group_type"], key_as_text(given["$group_key"]), given["$group_set"])
        return Shown(row["created_at"], group=group)
    states = row["event"] in ("$identify", "$create_alias", "$merge_dangerously")
    own = "" if given.get("$process_person_profile") is False else usable(row["distinct_id"])
    return Shown(row["created_at"], own, not states, writes={**given, "event": row["event"]}, event=event)


TOOLS: dict[str, Callable[[Row], Shown]] = {
    "generic": lambda row: with_ids(row["at"], row["user"], row["device"]),
    "amplitude": amplitude, "segment": segment, "rudderstack": segment, "braze": braze, "mixpanel": mixpanel,
    "kissmetrics": kissmetrics, "heap": heap, "countly": countly, "openpanel": openpanel,
    "posthog": posthog,
}  # fmt: skip


class People(NamedTuple):
    """Persons, each with those of its ids that are sent, and their profiles; and groups by type and key."""

    profiles: dict[frozenset[str], dict[str, Any]]
    groups: dict[tuple[str, str], dict[str, Any]]
    joined_users: bool = False
    """Whether a record makes one person of two users, or would."""


def survivors(rows: Iterable[Row]) -> list[Row]:
    """If several of Segment's calls have one messageId, the one received last is kept; the others have no effect
    (design §6).

    An alias of an id to itself, or of a placeholder, is left out (`incomplete_merge`) and takes no part. Neither does a
    call without an id, which is rejected: what is left out has no effect (design §2).
    """
    by_key: dict[object, Row] = {}
    for row in rows:
        ids = {usable(row[name]) for name in ("userId", "previousId") if row.get("type") == "alias"}
        if ids and (len(ids) < 2 or "" in ids):
            continue
        if row.get("type") in ("track", "identify") and not (usable(row["userId"]) or usable(row["anonymousId"])):
            continue
        key = row.get("messageId", id(row))
        if key not in by_key or row["receivedAt"] > by_key[key]["receivedAt"]:
            by_key[key] = row
    return list(by_key.values())


def devices_apart(shown: Sequence[Shown], own_pairs: Mapping[str, str], policies: Policies) -> list[Shown]:
    """The rows, without the pairs of shared devices that the policy does not merge (people#several-users). Users whom a
    record joins are one person."""
    seen: dict[str, list[Shown]] = {}
    named = {one.user for one in shown if one.user} | {*own_pairs.values()}
    for one in sorted(shown, key=lambda one: one.at):
        if one.device and one.device[0] not in named and own_pairs.get(one.device[0]) != one.device[1]:
            seen.setdefault(one.device[0], []).append(one)
    records = {one.same[::-1]: one.at for one in sorted(shown, key=lambda one: one.at) if len(one.same) == 2}
    last = {one.device: max(one.at, records.get(one.device or ("", ""), "")) for rows in seen.values() for one in rows}
    several = {
        device: sorted(rows, key=lambda one: last[one.device])
        for device, rows in seen.items() if device and len({one.device for one in rows}) > 1
    }  # fmt: skip
    pairs = {row.device for rows in several.values() for row in rows} - {*records}
    of = joined([one._replace(device=None) if one.device in pairs else one for one in shown], own_pairs, policies)[0]
    out = set[tuple[str, str] | None]()
    for rows in several.values():
        whose = [frozenset(of.get(user, {user})) for _, user in (one.device for one in rows if one.device)]
        kept = whose[-1] if policies.shared == "latest" or len({*whose}) == 1 else None
        out |= {one.device for one, who in zip(rows, whose, strict=True) if who != kept} - {*records}
    return [one._replace(device=None) if one.device in out else one for one in shown]


def joined(
    shown: Sequence[Shown], own_pairs: Mapping[str, str], policies: Policies
) -> tuple[dict[str, set[str]], bool]:
    """Each id with all ids of its person, decided over the whole graph in the order of time (people); and whether a
    record would make one person of two users.

    A device belongs to the user that it is first seen with, unless a pair of one's own says otherwise: a pair never
    joins two users. What a record of the tool names is one person, users too, unless they are to be kept apart. A row
    and a record of the same two ids are one pair, dated by the first of them.
    """
    users, service, two = {one.user for one in shown if one.user} | {*own_pairs.values()}, Target(), False
    ordered = sorted(shown, key=lambda one: one.at)
    for one in ordered:  # what the service itself refused stays refused: its own rules decide over its own events
        service.take(one.event or {"event": ""})
    of: dict[str, set[str]] = {}
    pairs = [(link, False) for link in own_pairs.items()] + [(ids, False) for ids in service.persons()]
    decided = [link for link, _ in pairs]
    records = {one.same for one in shown}
    rows = ((one.device or one.same, bool(one.device) and (one.device or ())[::-1] not in records) for one in ordered)
    for link, guarded in [*pairs, *rows]:
        sides = [of.get(name, {name}) for name in link]
        together = set[str]().union(*sides)
        both = len(sides) == 2 and sides[0] != sides[1] and all(users & side for side in sides)
        if not all(link) or (guarded and both):
            continue
        if both and not guarded and link not in decided:
            two = True
            if policies.joined == "none":
                continue
        of |= dict.fromkeys(together, together)
    return of, two


def people(
    tool: str,
    rows: Sequence[Row],
    own_pairs: Mapping[str, str] | None = None,
    promoted: Collection[str] = (),
    policies: Policies = FIRST,
) -> People:
    """What the target must have after these rows; `promoted` are properties whose final values it keeps."""
    shown = [TOOLS[tool](row) for row in survivors(rows)]
    paired = shown if policies.shared == "first" else devices_apart(shown, own_pairs or {}, policies)
    of, two = joined(paired, own_pairs or {}, policies)
    sent = {one.own for one in shown if one.own and one.is_event}
    history, own, groups = Target(promoted=promoted), Target(), dict[tuple[str, str], dict[str, Any]]()
    first: dict[str, dict[str, Any]] = {}
    for one in sorted(shown, key=lambda one: one.at):  # the last value by time, over the whole export (people)
        if one.group:
            groups.setdefault(one.group[:2], {}).update(one.group[2])
        if one.own:
            person = min(of.get(one.own, {one.own}))
            about = {**one.writes, "distinct_id": person, "$anon_distinct_id": person, "alias": person}
            event = {"event": one.writes.get("event", "Seen"), "timestamp": one.at, "properties": about}
            history.take(event)
            own.take(event)
            for name in promoted if event["event"] not in ("$exception", "$$heatmap") else ():
                if one.writes.get(name) is not None:
                    first.setdefault(person, {}).setdefault(f"$initial_{name}", one.writes[name])
    persons = {}
    for person, held in history.of.items():
        # The tool's own first touch comes before the one that its events show (people).
        stated = {k: v for k, v in values(own.of[person].properties).items() if k.startswith("$initial_")}
        held.properties |= first.get(person, {}) | stated
        ids = frozenset(of.get(person, {person}))
        # If a person has no event, only the profile is sent, under an id that no document names.
        if ids & sent or (len(ids) == 1 and values(held.properties)):
            persons[ids & sent or ids] = values(held.properties)
    return People(persons, groups, two)


def values(properties: Row) -> dict[str, Any]:
    """A profile without nulls: a stored null counts as absent (service#persons)."""
    return {name: value for name, value in properties.items() if value is not None}
