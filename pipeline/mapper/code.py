"""Writing the text of a mapper: lines, constants, and values read once.

Nothing that a mapping file says is ever pasted in as code: it enters through `const`, which keeps the object in
a table and gives the name it has there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pipeline.mapper.kinds import FAMILIES
from pipeline.mapper.language import Call
from pipeline.options import SealedOptions


class Local(NamedTuple):
    """A name in the text, and what it may hold.

    `any`: a value, None when absent, or JSON null. `value`: the same without JSON null. `text`: str or None.
    """

    name: str
    holds: str


class Code:
    """The text under construction.

    `removed` are properties that leave the row whatever else happens; `numbers` are references likely to be
    numbers (a hint for speed); `observing` is set where the mapper also says what a plan asks (`mapping.notes`).
    """

    members = False
    """Whether rows are Members (`pipeline.mapper.members_code`) rather than dicts."""

    def __init__(
        self, tool: str, options: SealedOptions, tables: Mapping[str, Mapping[str, str]], open_row: bool
    ) -> None:
        self.tool = tool
        self.options = options
        self.tables = tables
        self.open_row = open_row
        self.removed: set[str] = set()
        self.numbers: set[str] = set()
        self.gone: set[str] = set()
        self.named_columns: set[str] = set()
        self.constants: dict[str, Any] = {}
        self.lines: list[str] = []
        self.depth = 1
        self.used_hash = False
        self.observing = False
        self._names: dict[int, str] = {}
        self._scopes: list[dict[object, Local]] = [{}]
        self._count = 0

    # --- text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block; what is read inside it is not remembered outside."""
        self.line(head)
        self.depth += 1
        self._scopes.append({})
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self._scopes.pop()
        self.depth -= 1

    @contextmanager
    def when(self, test: str) -> Iterator[None]:
        """A block for rows of which an expression holds; no block at all where it is plainly true."""
        if test == "True":
            yield
            return
        with self.block(f"if {test}:"):
            yield

    @property
    def at_top(self) -> bool:
        """Whether the next line runs for every row that gets this far."""
        return len(self._scopes) == 1

    def const(self, value: Any, hint: str = "c") -> str:
        """The name of a constant."""
        known = self._names.get(id(value))
        if known is not None:
            return known
        name = f"_{hint}{len(self.constants)}"
        self.constants[name] = value
        self._names[id(value)] = name
        return name

    def local(self, hint: str = "v") -> str:
        """A fresh name."""
        self._count += 1
        return f"{hint}{self._count}"

    # --- values

    def known(self, key: object) -> Local | None:
        """What was read before and is still certain here."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def remember(self, key: object, local: Local) -> Local:
        self._scopes[-1][key] = local
        return local

    def value(self, call: Call) -> Local:
        """Emit what computes a value; holds `any`, `value` or `text`."""
        local: Local = FAMILIES["value"][call.verb].emit(self, call)
        return local

    def present(self, call: Call) -> Local:
        """Emit a value without JSON null: None when it is missing."""
        local = self.value(call)
        if local.holds == "any":
            key = ("present", local.name)
            if known := self.known(key):
                return known
            name = self.local()
            self.line(f"{name} = {local.name} if {local.name} is None or {local.name} != NULL else None")
            return self.remember(key, Local(name, "value"))
        return local

    def text(self, call: Call) -> Local:
        """Emit a value as text: None when it is missing; a number's digits, `true`, an object's JSON."""
        key = ("text", call.given.get("ref")) if call.verb == "ref" else None
        if key is not None and (known := self.known(key)):
            return known
        if call.verb == "first":
            return self._first_text(call)
        if call.verb == "when":
            return self._when_text(call)
        local = self.value(call)
        if local.holds == "text":
            return local
        name = self.local("t")
        number = self.local("n") if call.verb == "ref" and call.given["ref"] in self.numbers else ""
        if number:
            # What was decoded for the text is used again for the time.
            self.line(f"{number} = None")
            self.remember(("int", call.given["ref"]), Local(number, "any"))
        self._write_text(name, local.name, number)
        result = Local(name, "text")
        return self.remember(key, result) if key is not None else result

    def _write_text(self, name: str, source: str, number: str) -> None:
        """Set `name` to the text of a value, and `number`, unless that is "", to the whole number it is."""
        self.line(f"if {source} is None: {name} = None")
        with self.block(f"elif {source}.__class__ is Raw:"):
            if number:
                self.line(f"try: {number} = decode_int({source}); {name} = str({number})")
            else:
                self.line(f"try: {name} = decode_text({source})")
            self.line(f"except MsgspecError: {name} = text_of({source})")
        self.line(f"elif {source}.__class__ is str: {name} = {source}")
        self.line(f"else: {name} = text_of({source})")

    def _first_text(self, call: Call) -> Local:
        name = self.local("t")
        found, *others = call.given["first"]
        self.line(f"{name} = {self.text(found).name}")
        for other in others:
            with self.block(f"if {name} is None:"):
                self.line(f"{name} = {self.text(other).name}")
        return Local(name, "text")

    def _when_text(self, call: Call) -> Local:
        name = self.local("t")
        with self.block(f"if {self.test(call.given['when'])}:"):
            self.line(f"{name} = {self.text(call.given['then']).name}")
        with self.block("else:"):
            otherwise = call.given.get("else")
            self.line(f"{name} = {self.text(otherwise).name if otherwise else None}")
        return Local(name, "text")

    def test(self, call: Call) -> str:
        """Emit what a condition needs; the expression that is true when it holds."""
        test: str = FAMILIES["condition"][call.verb].emit(self, call)
        return test

    def opened(self, local: Local) -> str:
        """Emit the members of an object: a dict, or None when missing. Raises BadValue in the mapper."""
        name = self.local("o")
        self.line(f"{name} = opened({local.name})")
        return name

    # --- the row

    def read(self, ref: str) -> Local:
        """Emit the reading of a reference: a property's name, or `/column` and `/column/member/…` of the row."""
        key = ("ref", ref)
        if known := self.known(key):
            return known
        if not ref.startswith("/"):
            return self.remember(key, Local(self._take("p", ref, ref), "any"))
        steps = [step.replace("~1", "/").replace("~0", "~") for step in ref[1:].split("/")]
        if len(steps) == 1:
            if self.open_row:
                return self.remember(key, self.read(steps[0]))
            self.named_columns.add(steps[0])
            return self.remember(key, Local(self._take("row", steps[0], ref), "any"))
        outer = self.read("/" + "/".join(step.replace("~", "~0").replace("/", "~1") for step in steps[:-1]))
        members = ("members", outer.name)
        inside = self.known(members)
        if inside is None:
            name = self.local("o")
            self.line(f"{name} = members_of({outer.name})")
            inside = self.remember(members, Local(name, "value"))
        name = self.local("v")
        self.line(f"{name} = {inside.name}.get({steps[-1]!r})")
        return self.remember(key, Local(name, "any"))

    def _take(self, table: str, name: str, ref: str) -> str:
        """Emit the reading of a member of `p` or `row`, and take it out where it leaves in any case."""
        local = self.local("v")
        constant = repr(name)
        if self.at_top and table == "row":
            self.line(f"{local} = row.pop({constant}, None)")
        elif self.at_top and name in self.removed and name not in self.gone:
            self.gone.add(name)
            self.line(f"{local} = pop({constant}, None)")
        else:
            self.line(f"{local} = get({constant})" if table == "p" else f"{local} = row.get({constant})")
        return local
