"""Reads a mapping file: YAML in, `language.Mapping` out, or a MappingError at file:line:column.

Strict, because YAML guesses: `no` would be false, `1_000` a number, a second key would win silently. Here every scalar
keeps its text in the file, and anchors, tags, merges, duplicate and unknown keys are errors. `Reader` also reads job
files (pipeline.jobs.loading).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import yaml

from pipeline.errors import MappingError, UsageError, WrongFile
from pipeline.json_limits import MAX_DEPTH, depth
from pipeline.mapper import verbs  # noqa: F401  (declares the verbs)
from pipeline.mapper.codegen.conversions import PLAIN_NUMBER
from pipeline.mapper.language import kinds, plugin_verbs
from pipeline.mapper.language.files_section import Files
from pipeline.mapper.language.parsed import Outline
from pipeline.mapper.language.sections import FORMAT, MAPPING, Call, Mapping, Place

MOST_LEVELS = 32
"""The most levels of nested lists and tables; the deepest shipped mapping has 9. Each level may indent the source of a
mapper once or twice, and Python's limit is 100."""

MOST_STEPS = 64
"""The most steps of a reference. A row with more levels is rejected, so a longer reference could refer to nothing."""

_SPELLINGS = {
    r"\t": (r"\t", "tab", "tsv"),
    r"\x01": (r"\x01", r"\u0001", r"\001", "^a"),
    r"\\": (r"\\", "backslash"),
    ",": ("comma",),
    ";": ("semicolon",),
    "|": ("pipe",),
}
"""Characters as a mapping has them in double quotes, each with other spellings."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str, file: str) -> Mapping:
    """Parse the text of a mapping file; errors call it `file`. Raises MappingError."""
    reader = Reader(file)
    root = reader.compose(text)
    if not isinstance(root, yaml.MappingNode):
        raise reader.wrong(root, "a mapping file has to be a table", "begin with `format: " + FORMAT + "`")
    entries = reader.entries(root)
    form = entries.pop("format", None)
    if form is None or not isinstance(form, yaml.ScalarNode) or form.value != FORMAT:
        raise reader.wrong(
            form or root, f"the first line must be `format: {FORMAT}`", "write it, or name a mapping file"
        )
    given = reader.fields(root, MAPPING.name, MAPPING.fields, entries)
    _check_files(reader, entries.get("files"), given.get("files"))
    return Mapping(**given, file=file, text=text, verbs=tuple(sorted(reader.verbs)))


def _check_files(reader: Reader, node: Any, files: Files | None) -> None:
    """Check that no character has two meanings in delimited files. Raises MappingError."""
    if files is not None and (conflict := files.conflict()) is not None:
        key, message, hint = conflict
        raise reader.wrong(reader.entries(node).get(key), message, hint)


def outline(text: str, file: str) -> Outline:
    def of(node: yaml.Node) -> Outline:
        if isinstance(node, yaml.MappingNode):
            return {key.value: (*_at(key), of(value)) for key, value in node.value}
        return [(*_at(one), of(one)) for one in node.value] if isinstance(node, yaml.SequenceNode) else None

    def _at(node: yaml.Node) -> tuple[int, int]:
        return node.start_mark.line + 1, node.start_mark.column + 1

    root = Reader(file).compose(text)
    return None if root is None else of(root)


def span_of(mapping: Mapping, *path: str | int) -> tuple[tuple[int, int], tuple[int, int], bool]:
    """Where a key begins in the file and where its value ends, as lines and columns from 0, and whether the value is in
    brackets. The keys and indexes that lead to it must exist."""
    node: Any = Reader(mapping.file).compose(mapping.text)
    start = node.start_mark
    for step in path:
        if isinstance(node, yaml.MappingNode):
            key, node = next((key, value) for key, value in node.value if key.value == step)
            start = key.start_mark
        else:
            node = node.value[step]
            start = node.start_mark
    flow = bool(getattr(node, "flow_style", False))
    # The mark at the end of a block is where the next one begins, so its last value shows where it ends.
    while not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return (start.line, start.column), (node.end_mark.line, node.end_mark.column), flow


def _tree(event: Any, events: Iterator[Any]) -> yaml.Node:
    """The node that begins with an event; consumes its further events."""
    start: Any = event.start_mark
    end: Any = event.end_mark
    if isinstance(event, yaml.ScalarEvent):
        return yaml.ScalarNode("", event.value, start, end, style=event.style)
    flow: bool = event.flow_style
    table = isinstance(event, yaml.MappingStartEvent)
    children: list[yaml.Node] = []
    while not isinstance(event := next(events), yaml.CollectionEndEvent):
        children.append(_tree(event, events))
    end = event.end_mark
    if table:
        return yaml.MappingNode("", list(zip(children[::2], children[1::2], strict=True)), start, end, flow_style=flow)
    return yaml.SequenceNode("", children, start, end, flow_style=flow)


class Reader:
    """Reads nodes as their kinds declare; raises `error` with the place of a wrong one."""

    def __init__(self, file: str, error: type[WrongFile] = MappingError) -> None:
        self._file = file
        self._error = error
        self.verbs: set[str] = set()
        """The verbs of installed packages that were read."""

    def compose(self, text: str) -> yaml.Node | None:
        """The node tree, made from the events that were checked, so that the text is parsed once."""
        starts: list[Any] = []
        roots: list[yaml.Node] = []
        try:
            events = self._events(text)
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    starts.append(event.start_mark)
                else:
                    roots.append(_tree(event, events))
            if len(starts) > 1:
                raise yaml.MarkedYAMLError(
                    "expected a single document in the stream", None, "but found another document", starts[1]
                )
        except yaml.MarkedYAMLError as error:
            problem = " ".join(part for part in (error.context, error.problem) if part)
            raise self._at(
                error.problem_mark or error.context_mark, f"not YAML: {problem}", "check the indentation and the quotes"
            ) from None
        except yaml.YAMLError as error:
            raise self._error(f"not YAML: {error}", file=self._file, hint="save the file as UTF-8") from None
        return roots[0] if roots else None

    def _events(self, text: str) -> Iterator[Any]:
        """The events that begin a document, and those of nodes."""
        levels = 0
        for event in yaml.parse(text, Loader=_Loader):
            mark = event.start_mark
            # Checked while parsing: a tree with many more levels would exhaust the stack.
            levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if levels > MOST_LEVELS:
                raise self._at(
                    mark,
                    f"lists and tables are nested more than {MOST_LEVELS} levels deep",
                    "write it with fewer levels; `all` and `any` take lists of conditions",
                )
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise self._at(
                    mark, "anchors and aliases are not part of the language", "write it twice, or use a table"
                )
            if getattr(event, "tag", None):
                raise self._at(
                    mark, "tags are not part of the language", "every scalar is text; a verb gives it a type"
                )
            if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent | yaml.DocumentStartEvent):
                yield event

    def _at(self, mark: Any, message: str, hint: str) -> WrongFile:
        if mark is None:
            return self._error(message, file=self._file, line=1, column=1, hint=hint)
        return self._error(message, file=self._file, line=mark.line + 1, column=mark.column + 1, hint=hint)

    def wrong(self, node: yaml.Node | None, message: str, hint: str) -> WrongFile:
        return self._at(node.start_mark if node is not None else None, message, hint)

    def place(self, node: yaml.Node) -> Place:
        return Place(self._file, node.start_mark.line + 1, node.start_mark.column + 1)

    def entries(self, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        entries: dict[str, yaml.Node] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong(key, "a name must be plain text", "write text before the colon")
            if key.value == "<<" and not key.style:
                raise self.wrong(key, "merges (<<) are not part of the language", "write the entries out")
            if key.value in entries:
                raise self.wrong(key, f"{key.value!r} occurs twice", "keep one of the two")
            entries[key.value] = value
        return entries

    def read(self, node: yaml.Node, kind: kinds.Kind, name: str) -> Any:
        match kind:
            case kinds.Text():
                return self.text(node, name)
            case kinds.Choice(words):
                return self.choice(node, words, name)
            case kinds.Character(none):
                return self.character(node, none, name)
            case kinds.Json():
                return self.json(node, name)
            case kinds.ListOf(item, most, least):
                if isinstance(node, yaml.SequenceNode):
                    if len(node.value) < least:
                        raise self.wrong(node, f"{name!r} is an empty list", f"write an item, or delete {name!r}")
                    if most and len(node.value) > most:
                        raise self.wrong(
                            node.value[most],
                            f"{name!r} takes at most {most}, not {len(node.value):,}",
                            "leave some out",
                        )
                    return tuple(self.read(one, item, name) for one in node.value)
                return (self.read(node, item, name),)
            case kinds.TableOf(item):
                table = self.table(node, name)
                return {key: self.read(value, item, key) for key, value in table.items()}
            case kinds.Verbs(family, numbers):
                if numbers and isinstance(node, yaml.ScalarNode) and PLAIN_NUMBER.fullmatch(node.value):
                    return Call("json", {"json": node.value}, self.place(node))
                return self.call(node, family, name)
            case kinds.Either(words, family):
                if isinstance(node, yaml.ScalarNode):
                    return self.choice(node, words, name)
                return self.call(node, family, name)
            case kinds.Section():
                return self.section(node, kind, name)

    def text(self, node: yaml.Node, name: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, f"{name!r} takes text", "write one value after the colon")
        value: str = node.value
        return value

    def choice(self, node: yaml.Node, words: tuple[str, ...], name: str) -> str:
        word = self.text(node, name)
        if word not in words:
            raise self.wrong(node, f"{name!r} cannot be {word!r}", nearest(word, words))
        return word

    def character(self, node: yaml.Node, none: str, name: str) -> str:
        text = self.text(node, name)
        if none and text == none:
            return text
        if len(text) != 1:
            shown = f"not {text!r}" if text else "and none is given"
            written = next((escape for escape, names in _SPELLINGS.items() if text.lower() in names), "")
            absent = f"`{none}`" if none else f"delete {name!r}"
            hint = f'write "{written}", in double quotes' if written else f"write one character, or {absent}"
            raise self.wrong(node, f"{name!r} takes one character, {shown}", hint)
        if not text.isascii():
            raise self.wrong(
                node,
                f"{name!r} cannot be {text!r}: it is not an ASCII character",
                "convert the files so that they use an ASCII character, such as a tab",
            )
        if text in "\0\r\n":
            raise self.wrong(
                node,
                f"{name!r} cannot be {text!r}",
                'write a character that ends no line and is not NUL, such as "\\t"',
            )
        return text

    def json(self, node: yaml.Node, name: str) -> str:
        text = self.text(node, name).strip()
        try:
            # The depth at which the decoder itself fails depends on the Python version.
            if depth(text.encode()) > MAX_DEPTH:
                problem = f"{name!r} is nested too deeply; a row has at most {MAX_DEPTH} levels"
                raise self.wrong(node, problem, "write a value with fewer levels")
            msgspec.json.decode(text.encode())
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise self.wrong(
                node, f"{name!r} takes JSON text: {error}", "put it in single quotes, such as '12.50'"
            ) from None
        return text

    def table(self, node: yaml.Node, name: str, keys: Iterable[str] = ()) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            known = f"; the names are {', '.join(keys)}" if keys else ""
            raise self.wrong(node, f"{name!r} takes a table", f"write `name: value` lines below {name!r}{known}")
        return self.entries(node)

    def section(self, node: yaml.Node, section: kinds.Section, name: str) -> Any:
        if section.short and not isinstance(node, yaml.MappingNode):
            field = section.fields[section.short]
            return section.factory(**{field.into or section.short: self.read(node, field.kind, section.short)})
        given = self.fields(node, section.name, section.fields, self.table(node, name, section.fields))
        self.either(node, section, given)
        if section.placed:
            given["place"] = self.place(node)
        return section.factory(**given)

    def fields(self, node: yaml.Node, name: str, fields: Any, entries: dict[str, yaml.Node]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for key, value in entries.items():
            field: kinds.Field | None = fields.get(key)
            if field is None:
                sections = [name for name, one in MAPPING.fields.items() if key in getattr(one.kind, "fields", ())]
                hint = f"write it under {' or '.join(map(repr, sections))}" if sections else nearest(key, fields)
                raise self.wrong(self.key(node, key), f"{name} has no key {key!r}", hint)
            given[field.into or key] = self.read(value, field.kind, key)
        for key, field in fields.items():
            if field.required and key not in entries:
                raise self.wrong(node, f"{name} lacks {key!r}", f"{key}: {field.help}")
        return given

    def either(self, node: yaml.Node, section: kinds.Section, given: dict[str, Any]) -> None:
        present = {key for group in section.either for key in group if key in given}
        if section.either and present not in map(set, section.either):
            wanted = " or ".join(" and ".join(map(repr, group)) for group in section.either)
            raise self.wrong(node, f"{section.name} takes either {wanted}", "write exactly one of these")

    def key(self, node: yaml.Node, name: str) -> yaml.Node:
        return next((key for key, _ in node.value if key.value == name), node)

    def call(self, node: yaml.Node, family: str, name: str) -> Call:
        if isinstance(node, yaml.ScalarNode) and family == "value":
            if not node.value:
                raise self.wrong(node, f"{name!r} is empty", "name a property, or use {const: text}")
            if node.value[:1] == "/" and node.value.count("/") > MOST_STEPS:
                raise self.wrong(
                    node, f"{name!r} has more than {MOST_STEPS} steps, and no row has that many levels", "shorten it"
                )
            return Call("ref", {"ref": node.value}, self.place(node))
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(
                node, f"{name!r} takes a {family}", f"a table with one of: {', '.join(kinds.FAMILIES[family])}"
            )
        entries = self.entries(node)
        from_packages = [key for key in entries if key in plugin_verbs.names()]
        for key in from_packages:
            self._load(key, node)
        verb = self._verb(node, entries, family)
        if verb.name in from_packages:
            self.verbs.add(verb.name)
        return Call(verb.name, self.fields(node, verb.name, verb.arguments, entries), self.place(node))

    def _load(self, name: str, node: yaml.MappingNode) -> None:
        try:
            plugin_verbs.load(name)
        except UsageError as error:
            raise self.wrong(self.key(node, name), error.message, error.hint) from None

    def _verb(self, node: yaml.Node, entries: dict[str, yaml.Node], family: str) -> kinds.Verb:
        known = kinds.FAMILIES[family]
        named = [key for key in entries if key in known]
        fitting = [key for key in named if all(other in known[key].arguments for other in entries)]
        if named:
            return known[fitting[0] if len(fitting) == 1 else named[0]]
        first = next(iter(entries), "")
        place = self.key(node, first) if first else node
        raise self.wrong(place, f"unknown {family} {first!r}", nearest(first, known))


def nearest(word: str, words: Iterable[str]) -> str:
    """The hint for an unknown word: the nearest of `words`, or all of them."""
    known = list(words)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it takes: {', '.join(known)}"
