"""The wheel contains what the command needs, and the repository is as `make` describes it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)")


def pins() -> dict[str, str]:
    """The constraints file as normalised name to version."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return {plain(found[1]): found[2] for found in map(PIN.fullmatch, lines) if found}


def plain(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(extras: set[str]) -> set[str]:
    """The names of all installed distributions that the project needs here, directly or not."""
    waiting = list(PROJECT["dependencies"])
    for extra in extras:
        waiting += PROJECT["optional-dependencies"][extra]
    found: set[str] = set()
    while waiting:
        requirement, _, marker = waiting.pop().partition(";")
        name = plain(re.match(r"[A-Za-z0-9._-]+", requirement)[0])  # type: ignore[index]
        if name == PROJECT["name"]:  # an extra of its own
            continue
        try:
            requires = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            assert marker, f"{name} is not installed"
            continue
        if name not in found:
            found.add(name)
            waiting += [one for one in requires if "extra ==" not in one]
    return found


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what `python -m build` makes offline: the source archive, and the wheel made of that archive."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def below(folder: str) -> set[str]:
    """The files of a folder that belong in the wheel, relative to the repository."""
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(ROOT)) for path in paths}


def test_the_wheel_holds_the_bundled_folders_byte_for_byte(wheel: zipfile.ZipFile) -> None:
    """Each file of `mappings/` and `sample_data/` is below `pipeline/_bundled/` unchanged."""
    prefix = "pipeline/_bundled/"
    held = {name.removeprefix(prefix) for name in wheel.namelist() if name.startswith(prefix)}
    assert held == below("mappings") | below("sample_data")
    assert all(wheel.read(prefix + name) == (ROOT / name).read_bytes() for name in held)


def test_the_wheel_holds_the_package_its_command_and_its_licence(wheel: zipfile.ZipFile) -> None:
    """All of `pipeline`, and no test, benchmark or other top folder; `backcast` is its only command."""
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"pipeline"}
    assert {name for name in below("pipeline") if name.endswith(".py")} <= names
    texts = {name.split(".dist-info/")[-1]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert wheel.read(texts["entry_points.txt"]).decode().split("\n")[:2] == [
        "[console_scripts]", "backcast = pipeline.cli:main",
    ]  # fmt: skip
    assert wheel.read(texts["licenses/LICENSE"]) == (ROOT / "LICENSE").read_bytes()


def test_the_wheel_works_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    """It does not use this repository: except for dependencies, only what is in the wheel. A sample is rehearsed."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    packages = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # The folder that a .pth file names is searched, but its own .pth files, such as this repository's, are not read.
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps"]
    subprocess.run([*install, *map(str, built.glob("*.whl"))], capture_output=True, check=True)
    command = tmp_path / "env" / "bin" / "backcast"

    def says(*words: str) -> str:
        return subprocess.run([command, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert says("--version").startswith(f"backcast {PROJECT['version']}, with")
    found = subprocess.run(
        [python, "-c", "import pipeline; print(pipeline.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(packages)
    (tmp_path / "export.csv").write_text("event,user,at\nSigned Up,u-1,2023-01-02T03:04:05Z\n")
    columns = [word for name in ("event=event", "distinct_id=user", "timestamp=at") for word in ("--set", name)]
    says("plan", "export.csv", "-m", "generic", *columns, "--for", "http://127.0.0.1:1", "-o", "plan")
    assert json.loads(says("rehearse", "plan", "--json"))["apply"]["events"]["accepted"] == 1


def test_every_dependency_is_pinned_to_what_is_installed() -> None:
    """Direct and indirect, development too: each has a pin, the version here; the constraints are comments and pins, no
    index or path."""
    found = {name: importlib.metadata.version(name) for name in needed({"dev", "test"})}
    kept = pins()
    assert {name: kept.get(name) for name in found} == found
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if line and not line.startswith("#") and not PIN.fullmatch(line)] == []
    assert [line for line in lines if "/" in line] == []


LICENCES = {"MIT", "BSD-2-Clause", "BSD-3-Clause", "MPL-2.0"}


def test_the_node_packages_are_pinned_by_content_and_no_address() -> None:
    """npm takes them from whatever registry it is set to, and knows them by their digests.

    They are tools of the tests and not part of the distribution; each licence permits that.
    """
    folder = ROOT / "tests" / "real_clients"
    asked = json.loads((folder / "package.json").read_text("utf-8"))["dependencies"]
    text = (folder / "package-lock.json").read_text("utf-8")
    locked = {name: one for name, one in json.loads(text)["packages"].items() if name}
    assert {name: locked[f"node_modules/{name}"]["version"] for name in asked} == asked
    assert "://" not in text
    assert all(one["integrity"].startswith("sha512-") and one["license"] in LICENCES for one in locked.values())


def test_classifiers_changelog_and_ci_are_as_people_expect() -> None:
    """The lowest version is the required one; the changelog begins with Unreleased; `.ci/run` ends with the tests."""
    versions = re.findall(r"Python :: 3\.(\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">=3.{min(map(int, versions))}"
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    calls = [line.split()[2] for line in script.read_text("utf-8").splitlines() if line.startswith("make ")]
    assert calls == ["lint", "sanitize", "mutate", "test-pythons", "test"]
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_no_test_imports_the_benchmarks() -> None:
    """The tests do not use the benchmarks and their requirements, except the SDK that sends to the service."""
    stranger = re.compile(r"^ *(?:from|import) (?:benchmarks|posthog|requests)\b.*", re.MULTILINE)
    paths = (path for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "real_clients")
    assert [f"{path.name}: {one}" for path in paths for one in stranger.findall(path.read_text("utf-8"))] == []


def test_plain_make_lists_every_target() -> None:
    """`make` without a target prints each target with a sentence, and builds nothing."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    targets = [line.split()[1] for line in done.stdout.splitlines()]
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert phony
    assert targets == phony[1].split()
    assert all(len(line.split()) > 3 for line in done.stdout.splitlines())
