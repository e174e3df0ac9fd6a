"""Writing the same mapper once more, for rows that are `pipeline.native` Members.

A member's text or number is asked for by one call instead of a lookup, a test and a decoding, and nothing is taken
out while it is read: `native.Renames` does that for all properties at once. What comes of a row is the same, to the
byte; a row whose properties are no Members goes to the dict's mapper.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.mapper.code import Code, Local
from pipeline.mapper.language import Call
from pipeline.options import SealedOptions

MOST_RENAMES = 30_000
"""So many changes `native.Renames` takes at once; a mapping with more goes without it."""


class MembersCode(Code):
    """`Code` over Members. `suits` is False once the mapping asked for what only a dict can answer."""

    members = True

    def __init__(
        self,
        tool: str,
        options: SealedOptions,
        tables: Mapping[str, Mapping[str, str]],
        open_row: bool,
        opened_column: str,
    ) -> None:
        super().__init__(tool, options, tables, open_row)
        self.suits = True
        self.opened_column = opened_column

    def text(self, call: Call) -> Local:
        if call.verb != "ref":
            return super().text(call)
        ref = call.given["ref"]
        if known := self.known(("text", ref)):
            return known
        table, name = self._place(ref)
        if table is None or ref in self.numbers:
            return super().text(call)
        self._touch(ref, table, name)
        local = self.local("t")
        self.line(f"{local} = {table}.text({name!r})")
        return self.remember(("text", ref), Local(local, "text"))

    def present(self, call: Call) -> Local:
        if call.verb != "ref":
            return super().present(call)
        ref = call.given["ref"]
        if known := self.known(("given", ref)):
            return known
        table, name = self._place(ref)
        if table is None or ref in self.numbers or self.known(("ref", ref)) or name == self.opened_column:
            return super().present(call)
        self._touch(ref, table, name)
        local = self.local("v")
        self.line(f"{local} = {table}.given({name!r})")
        return self.remember(("given", ref), Local(local, "value"))

    def column(self, call: Call) -> str:
        """The column of the row that a value is as it stands; "" when it is anything else."""
        if call.verb != "ref":
            return ""
        table, name = self._place(call.given["ref"])
        return name if table == "row" and name != self.opened_column else ""

    def _take(self, table: str, name: str, ref: str) -> str:
        self._touch(ref, table, name)
        if table == "row" and name == self.opened_column:
            self.suits = False
        local = self.local("v")
        asked = "number" if ref in self.numbers else "get"
        self.line(f"{local} = {table}.{asked}({name!r})")
        return local

    def _write_text(self, name: str, source: str, number: str) -> None:
        """The text of a value that was read; what a dict's mapper writes, and an int besides."""
        if not number:
            super()._write_text(name, source, number)
            return
        self.line(f"if {source}.__class__ is int: {number} = {source}; {name} = str({source})")
        with self.block("else:"):
            super()._write_text(name, source, number)

    def _place(self, ref: str) -> tuple[str | None, str]:
        """Where a reference is a member: of the properties, of the row, or neither."""
        if not ref.startswith("/"):
            return "p", ref
        steps = [step.replace("~1", "/").replace("~0", "~") for step in ref[1:].split("/")]
        if len(steps) > 1:
            return None, ""
        if self.open_row:
            return "p", steps[0]
        self.named_columns.add(steps[0])
        return "row", steps[0]

    def _touch(self, ref: str, table: str, name: str) -> None:
        """Note what the dict's mapper would take out here, so that the order of the changes is the same."""
        if self.known(("touched", ref)):
            return
        self.remember(("touched", ref), Local("", "any"))
        if table == "p" and self.at_top and name in self.removed:
            self.gone.add(name)
