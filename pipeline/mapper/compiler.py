"""Compiles a mapping: its program, and from that one source for rows that are dicts and for native rows.

Tracebacks show the lines of the source.
"""

from __future__ import annotations

import builtins
import difflib
import linecache
import os
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from types import CodeType
from typing import Any, TypeAlias

import msgspec

from pipeline import models, uuids, values
from pipeline.errors import UsageError
from pipeline.extractors.file_rules import SETTINGS
from pipeline.mapper import loader_columns, verbs  # noqa: F401  (declares the verbs)
from pipeline.mapper.codegen import groups, row_kinds, runtime
from pipeline.mapper.codegen.row_kinds import NativeRows, NotNative, PythonRows, map_dicts
from pipeline.mapper.codegen.steps import StepEmitter
from pipeline.mapper.language.parsed import place_of
from pipeline.mapper.language.sections import Call, Clock, Ids, Mapping, Properties
from pipeline.mapper.namespace import namespace_of
from pipeline.mapper.own_code import Cost, OwnCodeRunner, load
from pipeline.mapper.program import expressions
from pipeline.mapper.program import operations as program
from pipeline.mapper.program.builder import HASH_KEY, NO_TABLES, Builder, Tables
from pipeline.mapper.program.functions import LAYOUTS, decode_row, layout_of
from pipeline.mapper.program.operations import Program
from pipeline.mapper.program.references import definitions_for
from pipeline.models import MapperResult, SealedOptions
from pipeline.native import AVAILABLE, native
from pipeline.timestamps import BadTime, format_utc, read_iso, read_iso_or_date
from pipeline.validator.placeholder_ids import SPELLINGS, is_placeholder
from pipeline.values import Record
from pipeline.zone_clock import ZoneClock

MapRow: TypeAlias = Callable[..., "MapperResult | list[MapperResult]"]
"""Takes a row, which it may change, and what sees the row as it came (`pipeline.transform.field_counts`) or None;
returns the row's outcome or outcomes."""

_ALWAYS_KNOWN = ("source", loader_columns.SETTING, *SETTINGS)


@dataclass(frozen=True, slots=True)
class Mapper:
    """A compiled mapping.

    `map_row(row, scan=None)` returns the outcomes of a row and may change the row; `scan` sees it as it came.
    `map_members` does the same for rows that are `pipeline.native` Members and have none of the columns in `decoded`;
    it is None without the native part, or if that cannot run the mapping. `space` is the namespace of the tool's keys
    and `hasher` computes uuids in it; `opens` are columns that a reader may pass as opened objects, so that they are
    decoded once; `zone_evidence`: events have `wall`, which can prove the zone; `hash_fingerprint` identifies the
    secret of keyed hashes, or ""; `blanks`: a blank cell of a delimited file is a value; `unread` are columns whose
    values decide nothing; `keeps_earliest`: of several rows with one key the one received earliest counts;
    `equal_by_values`: rows without a key are equal if they have the same `values.bare` record; `cost` adds up what the
    mapping's own code costs in this process, None if it has none.
    """

    tool: str
    space: uuid.UUID
    hasher: uuids.Hasher
    opens: tuple[str, ...]
    map_row: MapRow
    map_members: MapRow | None
    zone_evidence: bool
    hash_fingerprint: str
    program: Program
    source: str
    layout: Callable[[tuple[str, ...]], models.Layout | None] | None = None
    blanks: bool = False
    unread: frozenset[str] = frozenset()
    keeps_earliest: bool = False
    equal_by_values: bool = False
    cost: Cost | None = None


def compile_mapping(
    mapping: Mapping, options: SealedOptions, lookups: Tables = NO_TABLES, *, for_members: bool = True
) -> Mapper:
    """Compile for these options and the entries of the mapping's lookup files; without `for_members` only for rows that
    are dicts. Raises UsageError for settings that are missing or that the mapping does not have, and MappingError for
    errors that the loader cannot detect, such as the name of a table that does not exist."""
    _check_code(mapping)
    check_settings(mapping, options)
    _check_blanks(mapping)
    try:
        return _compile(mapping, options, lookups, for_members)
    except (SyntaxError, RecursionError, MemoryError) as error:
        # Python's own limits: a mapping can exceed them within the limits of the loader.
        raise mapping.event.place.error(
            f"the mapping is too large to compile ({error})", "write it with fewer nested values and conditions"
        ) from None


compile = compile_mapping


def compile_value(mapping: Mapping, options: SealedOptions, call: Call) -> Callable[[Record], MapperResult]:
    """A function that computes a value from rows that are not rows of the export, such as those of a lookup file: it
    returns an event whose property `value` it is, or a reject. Raises MappingError as `compile_mapping` does."""

    def fixed(text: str) -> Call:
        return Call("const", {"const": text}, call.place)

    alone = Mapping(
        tool=mapping.tool, title="", settings=mapping.settings, tables=mapping.tables, blanks=mapping.blanks,
        define=definitions_for(call, mapping), event=fixed("row"), distinct_id=Ids(first=(fixed("row"),)),
        time=(Clock(source=fixed("1970-01-01T00:00:00Z")),), properties=Properties(rest="drop", set={"value": call}),
        file=mapping.file,
    )  # fmt: skip
    map_row = compile_mapping(alone, options, for_members=False).map_row
    return lambda row: map_row({**row})  # type: ignore[return-value]


def _compile(mapping: Mapping, options: SealedOptions, lookups: Tables, for_members: bool) -> Mapper:
    built = Builder(mapping, options, lookups).build()
    _check_open(mapping, built)
    clock = ZoneClock(options.zones)
    emitter = StepEmitter(built)
    source = emitter.source()
    map_row = load_source(emitter, source, clock)
    map_members = None
    if for_members and AVAILABLE and emitter.for_members:
        with suppress(NotNative):
            map_members = _function(emitter, source, clock, NativeRows(), map_row)
    layout = None
    if built.decode is not None:
        map_row = decoding(built.decode, map_row if map_members is None else as_members(map_members, map_row))
        if built.decode.decoder in LAYOUTS:
            layout = partial(layout_of, built.decode)
        else:
            map_members = None
    space = namespace_of(mapping, options)
    hasher = uuids.Hasher(space)
    runner = OwnCodeRunner(mapping.code, hasher) if mapping.python and mapping.code is not None else None
    if runner is not None:
        map_row = runner.after(map_row)
        map_members = None if map_members is None else runner.after(map_members)
    hashes = any(
        isinstance(operation, expressions.Hash | program.HashProperty)
        for operation in expressions.operations(built.steps)
    )
    return Mapper(
        tool=mapping.tool,
        space=space,
        hasher=hasher,
        opens=(built.opened,) if built.opened is not None else (),
        map_row=map_row,
        map_members=map_members,
        zone_evidence=any(clock.zone == "project" or clock.proof_unless is not None for clock in mapping.time),
        hash_fingerprint=runtime.hash_fingerprint(os.environ[HASH_KEY]) if hashes else "",
        program=built,
        source=source,
        layout=layout,
        blanks=mapping.blanks.in_cells,
        unread=frozenset() if built.decode is not None else built.unread,
        keeps_earliest=mapping.key is not None and mapping.key.keep == "earliest",
        equal_by_values=mapping.key is not None and mapping.key.equal == "values",
        cost=None if runner is None else runner.cost,
    )


def load_source(emitter: StepEmitter, source: str, clock: ZoneClock) -> MapRow:
    """The function of a mapper's source, for rows that are dicts."""
    return map_dicts(_function(emitter, source, clock, PythonRows()))


def _function(
    emitter: StepEmitter, source: str, clock: ZoneClock, kind: PythonRows, map_dict: MapRow | None = None
) -> MapRow:
    """The function of a mapper's source for a kind of rows, with the constants that it names. `map_dict` maps rows that
    turn out to be of another kind."""
    names: dict[str, Any] = {**_NAMES, **emitter.constants, "Members": kind.row, "map_dict": map_dict}
    names |= {name: make(kind) for name, make in emitter.makers.items()}
    names["collided"] = emitter.collided
    names["keep_taken"] = partial(row_kinds.keep_taken, emitter.program.tool)
    names["to_utc"], names["offsets"] = clock.to_utc, clock.offsets
    exec(_code_of(source, emitter.program.tool), names)
    map_row: MapRow = names["map_row"]
    return map_row


@lru_cache(maxsize=64)
def _code_of(source: str, tool: str) -> CodeType:
    """Cached, because Python's compiler takes most of the time that compiling a mapping takes."""
    file = f"<mapping {tool} {blake2b(source.encode('utf-8', 'surrogatepass'), digest_size=4).hexdigest()}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return _interned(builtins.compile(source, file, "exec"))


def _interned(code: CodeType) -> CodeType:
    """The same code with interned strings, which dicts compare with member names by identity."""
    constants: list[Any] = []
    for constant in code.co_consts:
        if isinstance(constant, str):
            constants.append(sys.intern(constant))
        else:
            constants.append(_interned(constant) if isinstance(constant, CodeType) else constant)
    return code.replace(co_consts=tuple(constants))


def as_members(map_members: MapRow, map_dict: MapRow) -> MapRow:
    """The function that maps rows that are dicts as Members, unless they have too many names."""
    header = native.Header()

    def map_row(row: Record, scan: Any = None) -> Any:
        members = header(row)
        return (map_dict if members is row else map_members)(members, scan)

    return map_row


def decoding(decode: program.Decode, map_row: MapRow) -> MapRow:
    """The function that maps all plain rows that a decoder returns for one row."""

    def map_decoded(row: Record, scan: Any = None) -> Any:
        names = dict(row) if scan is not None else row
        try:
            rows = decode_row(decode, row)
        except (values.BadValue, msgspec.MsgspecError) as error:
            if scan is not None:
                scan.row(names)
            return models.RejectReason("bad_value", str(error))
        if len(rows) == 1 and isinstance(rows[0], dict):
            # Returned as it is, so that an event of an ordinary row takes the fast path.
            return map_row(rows[0], scan)
        if len(rows) <= 1:
            if scan is not None:
                scan.row(names)
            return rows[0] if rows else models.Skip("empty_row")
        outcomes = models.ItemOutcomes()
        for plain in rows:
            if isinstance(plain, dict):
                outcome = map_row(plain, scan)
            else:
                outcome = plain
                if scan is not None:
                    scan.row({})
            outcomes += outcome if isinstance(outcome, list) else [outcome]
            outcomes.ends.append(len(outcomes))
        return outcomes

    return map_decoded


_NAMES: dict[str, Any] = {
    **{name: one for module in (runtime, groups, row_kinds) for name, one in vars(module).items() if name[0] != "_"},
    "BadTime": BadTime,
    "UnvalidatedEvent": models.UnvalidatedEvent,
    "MsgspecError": msgspec.MsgspecError,
    "decode_int": msgspec.json.Decoder(int).decode,
    "format_utc": format_utc,
    "is_placeholder": is_placeholder,
    "read_iso": read_iso,
    "read_iso_or_date": read_iso_or_date,
    "without_loader_columns": loader_columns.without_loader_columns,
}
"""The globals of a mapper's source: those of these modules, and a few more."""
if AVAILABLE:
    _NAMES["read_iso"] = native.Reader("iso", read_iso)
    _NAMES["read_iso_or_date"] = native.Reader("iso", read_iso_or_date)
    _NAMES["clean_uuid"] = native.Reader("uuid", runtime.clean_uuid)
    _NAMES["is_placeholder"] = native.Reader("placeholder", is_placeholder, SPELLINGS)


def _check_code(mapping: Mapping) -> None:
    """Code runs only for a mapping that a person named by its path, because only then is the code read."""
    if mapping.python and mapping.code is None:
        raise place_of(mapping, "python").error(
            "only a mapping that is named by its path may have `python`",
            "copy the mapping and the code into a folder of yours, and name the copy: -m FOLDER/FILE.yaml",
        )
    if mapping.code is not None:
        load(mapping.code)


def _check_blanks(mapping: Mapping) -> None:
    """A string in a row does not show whether its file was a delimited one or Parquet."""
    if mapping.blanks.csv == "value" and mapping.blanks.parquet == "missing":
        raise place_of(mapping, "blanks", "parquet").error(
            "`parquet: missing` does not work if blank cells of delimited files are values",
            "name the properties to leave out under `properties: blank`, or use `unless`",
        )


def _check_open(mapping: Mapping, built: Program) -> None:
    """The object with the properties cannot be computed from a property."""
    for step in built.steps:
        read = (one for one in expressions.operations(step) if isinstance(one, expressions.Property))
        if isinstance(step, program.OpenProperties) and any(read):
            raise place_of(mapping, "properties", "open").error(
                "`open` cannot read a property: it gives the object with the properties",
                "write /column for a column of the row, or @name for a definition",
            )


def check_settings(mapping: Mapping, options: SealedOptions) -> None:
    """Raise UsageError for a setting, or a value of one, that the mapping does not have."""
    known = tuple(dict.fromkeys((*_ALWAYS_KNOWN, *mapping.settings)))
    for name, given in options.settings.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UsageError(
                f"the mapping {mapping.tool} has no setting {name!r}",
                hint=f"did you mean --set {near[0]}=…?" if near else f"its settings: {', '.join(known)}",
            )
        allowed = mapping.settings[name].one_of if name in mapping.settings else ()
        if name == loader_columns.SETTING and not allowed:
            allowed = (loader_columns.KEEP,)
        if allowed and given and given not in allowed:
            choice = f"--set {name}={allowed[0]}" if len(allowed) == 1 else f"one of: {', '.join(allowed)}"
            raise UsageError(
                f"the mapping {mapping.tool} does not know --set {name}={given}", hint=f"leave it out, or use {choice}"
            )
