"""The parts of the documentation that are generated from the code, so that they cannot fall behind it.

A page asks for one with a line `<!-- generated: NAME -->`, NAME being a key of `PARTS`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from pipeline.cli.help import WHOLE

PLACEHOLDER = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)
EXAMPLES = Path(__file__).parent / "use" / "verb-examples.yaml"


def fill(app: Any, page: str, source: list[str]) -> None:
    """Sphinx's `source-read`: replace each placeholder in a page by its Markdown."""
    source[0] = filled(source[0])


def filled(text: str) -> str:
    """The text of a page with its generated parts. Raises KeyError for a part that does not exist."""
    return PLACEHOLDER.sub(lambda found: PARTS[found[1]](), text)


def commands() -> str:
    """The reference of every command and its options, from the help that each prints."""
    from pipeline.cli import cli

    return "\n".join(_command(command, context) for command, context in command_tree(cli, None, "backcast"))


def command_tree(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[tuple[click.Command, click.Context]]:
    """A command and all commands under it, each with the context that knows its whole name."""
    context = click.Context(command, parent, info_name=name, **command.context_settings)
    yield command, context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from command_tree(found, context, child)


class MarkdownHelp(click.HelpFormatter):
    """Writes the help of a command as Markdown: sections become headings, lists of options become tables."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(_fenced("text", f"{prog} {args}".strip()))

    def write_heading(self, heading: str) -> None:
        self.write(f"**{heading}**\n\n")

    def write_paragraph(self) -> None:
        self.write("\n")

    def write_text(self, text: str) -> None:
        for paragraph in text.split("\n\n"):
            if paragraph.startswith("\b\n"):
                self.write(_fenced("text", paragraph.removeprefix("\b\n").removeprefix("Example: ")))
            else:
                self.write(" ".join(paragraph.split()) + "\n\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        kind = "option" if rows[0][0].startswith("-") else "command"
        self.write(
            _table((kind, "meaning"), ((f"`{name.strip()}`", " ".join(text.split())) for name, text in rows)) + "\n"
        )

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self.write_paragraph()
        self.write_heading(name)
        yield


def _command(command: click.Command, context: click.Context) -> str:
    help_ = MarkdownHelp()
    context.meta[WHOLE] = True
    command.format_help(context, help_)
    level = "##" if context.parent is None or context.parent.parent is None else "###"
    return f"{level} `{context.command_path}`\n\n{help_.getvalue()}"


def mapping_sections() -> str:
    """What each section of a mapping file takes, from the schema that editors use."""
    from pipeline.mapper.language.editor_schema import editor_schema

    return "\n".join(_section("", editor_schema(), {"value", "condition", "decoder"}))


def _section(path: str, schema: dict[str, Any], families: set[str]) -> Iterator[str]:
    """The tables of a section and of the sections inside it. `path` is "" for the whole file."""
    heading = f"### `{path}`" if path else "### The file"
    required = schema.get("required", ())
    yield f"{heading}\n"
    yield _table(
        ("key", "takes", "meaning"),
        (
            (f"`{name}`" + (" (required)" if name in required else ""), _takes(field), field.get("description", ""))
            for name, field in schema["properties"].items()
        ),
    )
    for name, field in schema["properties"].items():
        for inside, suffix in _objects(field):
            yield from _section(f"{path}.{name}{suffix}".removeprefix("."), inside, families)


def _objects(field: dict[str, Any], suffix: str = "") -> Iterator[tuple[dict[str, Any], str]]:
    """The sections that a key may hold, each once, and what follows the key's name to get there."""
    if "properties" in field:
        yield field, suffix
    elif isinstance(named := field.get("additionalProperties"), dict):
        yield from _objects(named, f"{suffix}.NAME")
    elif "anyOf" in field:
        yield from [found for choice in field["anyOf"] for found in _objects(choice, suffix)][:1]
    elif "items" in field:
        yield from _objects(field["items"], suffix)


def _takes(field: dict[str, Any]) -> str:
    """What a key may hold, in a few words."""
    if "enum" in field:
        return " or ".join(f"`{word}`" for word in field["enum"] if isinstance(word, str))
    if "$ref" in field:
        return "a [{0}](#{0}s)".format(field["$ref"].removeprefix("#/$defs/"))
    if "anyOf" in field:
        choices = [_takes(choice) for choice in field["anyOf"]]
        return " or ".join(dict.fromkeys(choice for choice in choices if choice))
    if field.get("type") == "array":
        return "a list of these"
    if isinstance(field.get("additionalProperties"), dict):
        return f"a table: name to {_takes(field['additionalProperties'])}"
    if "properties" in field:
        return "a table of the keys below"
    return "JSON text" if field.get("contentMediaType") else "text"


def verbs(family: str) -> str:
    """Every verb of a family, in the order of its examples: what it does, its arguments, and the example."""
    from pipeline.mapper.language.editor_schema import editor_schema

    declared = editor_schema()["$defs"]
    shown = (name.split() for name in examples() if name.startswith(f"{family} "))
    return "\n".join(_verb(name, declared[f"{of}-{name}"], examples()[f"{of} {name}"]) for of, name in shown)


def _verb(name: str, verb: dict[str, Any], example: str) -> str:
    required = verb.get("required", ())
    arguments = _table(
        ("argument", "takes", "meaning"),
        (
            (f"`{argument}`" + (" (required)" if argument in required else ""), _takes(field), field["description"])
            for argument, field in verb["properties"].items()
        ),
    )
    return f"### `{name}`\n\n{_sentence(verb['description'])}\n\n{arguments}\n{_fenced('yaml', example)}"


def frame() -> str:
    """What each example of a verb leaves out."""
    return _fenced("yaml", _examples()["frame"])


def examples() -> dict[str, str]:
    """The fragment that shows each verb, by family and name with a space between them."""
    return {name: text for name, text in _examples().items() if name != "frame"}


def complete(example: str) -> str:
    """A whole mapping file: the frame without the sections that the example has, then the example."""
    own = {line.partition(":")[0] for line in example.splitlines() if line[:1] not in ("", " ", "#")}
    kept = (line for line in _examples()["frame"].splitlines() if line.partition(":")[0] not in own)
    return "".join(f"{line}\n" for line in kept) + example


def _examples() -> dict[str, str]:
    found: dict[str, str] = yaml.safe_load(EXAMPLES.read_text(encoding="utf-8"))
    return found


def library() -> str:
    """The public functions of the package in the order of an import, each with its signature and docstring."""
    import pipeline

    found = [getattr(pipeline, name) for name in pipeline.__all__]
    found.sort(key=lambda one: inspect.unwrap(one).__code__.co_firstlineno)
    return "\n".join(
        f"### `{one.__name__}`\n\n{_fenced('python', _signature(one.__name__, one))}{inspect.getdoc(one)}\n"
        for one in found
    )


def options() -> str:
    """The options of each step, as `pipeline.options` declares them."""
    from pipeline.options import planning, reading, sending

    kinds = (
        one
        for step in (planning, sending, reading)
        for one in vars(step).values()
        if getattr(one, "__module__", "") == step.__name__ and hasattr(one, "__post_init__")
    )
    return "\n".join(f"### `{kind.__name__}`\n\n{inspect.getdoc(kind)}\n\n{_option_table(kind)}" for kind in kinds)


def _option_table(kind: Any) -> str:
    from pipeline.option_types import option_of

    rows = [
        (f"`{one.name}`", f"`{one.default if one.default is not MISSING else {}!r}`", f"`{flags}`" if flags else "",
         about.help.partition("  [default")[0])
        for one in fields(kind)
        for about in [option_of(one)]
        for flags in [" ".join(about.flags)]
    ]  # fmt: skip
    return _table(("option", "default", "on the command line", "meaning"), rows)


def _signature(name: str, one: Callable[..., object]) -> str:
    """A call with one argument a line, as the source writes it."""
    parameters = inspect.signature(one).parameters.values()
    lines, only_named = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not only_named:
            lines.append("    *,")
            only_named = True
        text = f"{parameter.name}: {parameter.annotation}"
        if parameter.default is not parameter.empty:
            default = "..." if callable(parameter.default) else repr(parameter.default)
            if is_dataclass(parameter.default):
                default = f"{type(parameter.default).__name__}()"
            text += f" = {default}"
        lines.append(f"    {text},")
    return "\n".join([f"{name}(", *lines, ")"]) if lines else f"{name}()"


def errors() -> str:
    """The public errors, each with its exit code."""
    rows = ((f"`{name}`", str(kind.exit_code), _first(kind)) for name, kind in _errors().items())
    return _table(("error", "exit code", "means"), rows)


def _errors() -> dict[str, Any]:
    from pipeline import errors

    return {name: one for name, one in vars(errors).items() if hasattr(one, "exit_code")}


def _first(one: object) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(one) or "").partition("\n\n")[0].split())


def codes() -> str:
    """Every code of a row, an event or a profile: what it decides, and its text."""
    from pipeline.validator.codes import codes as registry

    return _table(("code", "level", "meaning"), ((f"`{one.name}`", one.level, one.text) for one in registry().values()))


def effects() -> str:
    """What `mapping check` finds to be without effect, from the docstrings of its checks."""
    from pipeline.mapper.inspection.ineffective import CHECKS

    lines = [" ".join((check.__doc__ or "").split()) for check in CHECKS]
    return "\n".join(f"- {line};" for line in lines[:-1]) + f"\n- {lines[-1]}."


def mappings() -> str:
    """The shipped mappings and what each reads."""
    from pipeline.mapper import available, load

    return _table(("mapping", "reads"), ((f"`{name}`", load(name).title) for name in available()))


def job_keys() -> str:
    """Each key of a job file with its meaning."""
    from pipeline.jobs import loading

    required = dict.fromkeys(loading.REQUIRED, " (required)")
    return _table(
        ("key", "meaning"), ((f"`{key}`{required.get(key, '')}", text) for key, text in loading.job_keys().items())
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


PARTS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "mapping-sections": mapping_sections,
    "effects": effects,
    "frame": frame,
    "values": lambda: verbs("value"),
    "conditions": lambda: verbs("condition"),
    "decoders": lambda: verbs("decoder"),
    "library": library,
    "options": options,
    "errors": errors,
    "codes": codes,
    "job-keys": job_keys,
    "mappings": mappings,
}
"""What a page can ask for, by name."""
