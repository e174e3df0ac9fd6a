"""A package imports only packages above it, and only a few packages import each library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pipeline"

PACKAGES = (
    "lazily", "errors", "out_of_memory", "plugins", "native", "storage", "json_limits", "zone_hints", "timestamps",
    "zone_clock", "option_types", "options", "models", "uuids", "config", "state_folder", "values", "text",
    "spreadsheets", "charts", "mask", "files", "ctrl_c", "id_hash", "clock_offsets", "targets", "http", "extractors",
    "validator", "mapper", "encoder", "fragment", "batcher", "survey", "ledger", "identity", "transform", "engines",
    "plan", "delivery", "management", "definitions", "fetch", "verify", "report", "preflight", "proof",
    "local_service", "rehearsal", "imported", "steps", "jobs", "api", "demo", "guided", "cli",
)  # fmt: skip
"""Top to bottom; data flows down this list and imports look up it."""

LIBRARIES = {
    library: frozenset(places.split())
    for library, places in {
        "click": "cli",
        "httpx": "http",
        "tenacity": "delivery.retry",
        "sqlite3": "ledger jobs.state jobs.indexes jobs.database",
        "adbc_driver_manager": "fetch.database",
        "fsspec": "storage",
        "dask": "engines.dask",
        "distributed": "engines.dask",
        "pyspark": "engines.spark",
        "duckdb": (
            "fetch.database fetch.query identity.database local_service.store.database local_service.query.worker"
        ),
        "yaml": "mapper.language.loader mapper.language.what_decides",
        "openpyxl": "extractors.excel_reader",
        "pyarrow": (
            "engines.spark extractors.containers extractors.orc_reader extractors.parquet_reader "
            "extractors.parquet_footer extractors.parquet_values fetch.database identity.database "
            "identity.observed_pairs identity.identities identity.last_values plan.fact_tables "
            "plan.people plan.profiles plan.statements plan.requests.facts plan.requests.places "
            "report.pairs local_service.store local_service.query transform.block transform.facts "
            "transform.staged transform.statements verify.expected verify.metrics verify.session"
        ),
        "fastavro": "extractors.avro_reader extractors.avro_values",
        "cramjam": "extractors.avro_reader",
        "jinja2": "report.page.html local_service.page.rendering",
        "pydantic": "management.models local_service",
        "pydantic_core": "management.models",
        "starlette": "local_service",
        "uvicorn": "local_service.server local_service.faults.middleware",
        "rich": "report cli.progress cli.common",
        "ua_parser": "mapper.verbs.devices",
        "babel": "mapper.verbs.country",
        "prometheus_client": "delivery.metrics",
        "cryptography": "proof.signature",
        "isal": "batcher fragment extractors.containers local_service.capture.decoding transform.staged",
        "zstandard": "extractors.containers",
    }.items()
}
"""Only these packages (or modules) may import the library."""


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if "_bundled" not in path.parts)


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


LOOKED_AT = (ast.Import, ast.ImportFrom, ast.If, ast.FunctionDef, ast.AsyncFunctionDef, ast.With)


@cache
def nodes(path: Path) -> list[ast.AST]:
    """The parts of a file's syntax tree that these tests look at."""
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, LOOKED_AT)]


@cache
def imports(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """(module, line, whether only for types) of every import in a file, anywhere in it."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    typing_only: set[int] = set()
    for node in nodes(path):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            typing_only.update(inner.lineno for inner in ast.walk(node) if hasattr(inner, "lineno"))
    package = ("pipeline." + name_of(path)).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node.lineno in typing_only
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            if base == "pipeline":
                for alias in node.names:
                    yield f"pipeline.{alias.name}", node.lineno, node.lineno in typing_only
            else:
                yield base, node.lineno, node.lineno in typing_only


def test_every_package_is_in_the_order() -> None:
    """A new top-level module or package has to be put into the list."""
    packages = {name_of(path).split(".")[0] for path in modules()} - {"", "__main__"}
    assert packages == set(PACKAGES)


def test_a_package_imports_only_packages_above_it() -> None:
    """Imports for types alone may look down; nothing else may."""
    wrong = []
    for path in modules():
        own = name_of(path).split(".")[0]
        for module, line, typing_only in imports(path) if own not in ("", "__main__") else ():
            package = module.split(".")[1] if module.startswith("pipeline.") else own
            if not typing_only and package != own and PACKAGES.index(package) > PACKAGES.index(own):
                wrong.append(f"{name_of(path)}:{line} {module}")
    assert wrong == []


def test_the_local_service_judges_by_code_of_its_own() -> None:
    """The service imports nothing of ours, so that it can judge the rest; how counts are drawn judges nothing, and
    tests compare the table of operations with the contract."""
    allowed = {"errors", "management", "management.models", "management.operations"}
    wrong = [
        f"{name_of(path)}:{line} {module}"
        for path in modules()
        if name_of(path).startswith("local_service")
        for module, line, _ in imports(path)
        if module.startswith("pipeline.")
        and not module.startswith(("pipeline.local_service", "pipeline.charts"))
        and module.removeprefix("pipeline.") not in allowed
    ]
    assert wrong == []


def test_a_library_is_imported_by_few() -> None:
    """Each third-party library is imported in one place, or in the few that are listed."""
    wrong = []
    for path in modules():
        for module, line, typing_only in imports(path):
            allowed = LIBRARIES.get(module.split(".")[0])
            if allowed and not typing_only and not any(f"{name_of(path)}.".startswith(f"{one}.") for one in allowed):
                wrong.append(f"{name_of(path)}:{line} {module}")
    assert wrong == []


def test_modules_are_short_enough_to_read() -> None:
    """About 350 lines at most, so that a file has one subject."""
    long = {name_of(path): lines for path in modules() if (lines := path.read_text().count("\n")) > 420}
    assert long == {}


def test_no_function_has_more_than_eight_parameters() -> None:
    """What belongs together travels as one value, such as the options of a step."""
    found = {}
    for path in modules():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                named = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                count = len(named) - (named[:1] in (["self"], ["cls"]))
                if count > 8:
                    found[f"{name_of(path)}.{node.name}"] = count
    assert found == {}


def test_a_connection_of_sqlite_is_closed_by_name() -> None:
    """Its own `with` statement ends a transaction and leaves the file open, of which Python 3.13 warns at some time."""
    found = []
    for path in (*modules(), *(ROOT / "tests").rglob("*.py")):
        if "sqlite3.connect(" in path.read_text(encoding="utf-8"):
            for node in nodes(path):
                for item in node.items if isinstance(node, ast.With) else ():
                    if ast.unparse(item.context_expr).startswith("sqlite3.connect("):
                        found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []
