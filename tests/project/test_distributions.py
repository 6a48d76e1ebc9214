"""Wheel and source distribution: built from the checkout, complete, and running where they are installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from first_tasks import TASKS, carry_out
from paths import ROOT
from source_files import PACKAGES
from tx8isa.tools.version import VERSION

NOT_OURS = (
    ".git",
    ".venv",
    "build",
    "dist",
    "*.egg-info",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    ".coverage*",
)
MADE_BY_RUNS = ("prog.s", "prog.bin", "prog.const")
ADDED = ("PKG-INFO", "setup.cfg", "tx8.egg-info/")
"""Files of a source distribution that the checkout does not have."""
CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""An environment in which no checkout is found."""
DOCUMENTS = f"tx8-{VERSION}.data/data/share/doc/tx8/"


@dataclass(frozen=True)
class Distributions:
    """Both archives, the files of the checkout they were made from, and a folder for more."""

    wheel: Path
    sdist: Path
    files: set[str]
    folder: Path


@dataclass(frozen=True)
class Environment:
    """An environment with the wheel and, after it on the path, the libraries of the tests' environment."""

    bin: Path
    folder: Path

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, where no checkout is in the path."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd or self.folder,
            env=CLEAN,
            capture_output=True,
            text=True,
            check=False,
        )


def call(*command: str | Path, cwd: Path) -> None:
    """Run a program, which must succeed."""
    run = subprocess.run(command, cwd=cwd, env=CLEAN, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel is built from the source distribution, as in a package index."""
    folder = tmp_path_factory.mktemp("distributions")
    source = folder / "tx8"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_OURS, *MADE_BY_RUNS))
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Distributions(wheel, sdist, files, folder)


def environment(folder: Path, *what: str | Path) -> Environment:
    """An environment in ``folder``, in which pip has installed ``what``."""
    home = folder / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    (place,) = home.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    (place / "libraries.pth").write_text("\n".join(libraries))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", home / "bin/python"]
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    call(*pip, "install", *options, *what, cwd=folder)
    (folder / "elsewhere").mkdir()
    return Environment(home / "bin", folder / "elsewhere")


@pytest.fixture(scope="module")
def installed(built: Distributions) -> Environment:
    return environment(built.folder, built.wheel)


def of_sdist(path: Path) -> set[str]:
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def of_wheel(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


# --- complete -----------------------------------------------------------------------------


@pytest.mark.long
def test_the_source_distribution_is_the_checkout(built: Distributions) -> None:
    found = {name for name in of_sdist(built.sdist) if not name.startswith(ADDED)}
    assert sorted(built.files - found) == [], "MANIFEST.in leaves it out"
    assert sorted(found - built.files) == []


@pytest.mark.long
def test_the_wheel_has_all_packages(built: Distributions) -> None:
    """Every file of a package: modules, tables, headers, parts of the report's page."""
    found = of_wheel(built.wheel)
    ours = {name for name in built.files if name.split("/")[0] in PACKAGES}
    assert sorted(ours - found) == [], "packages or package-data in pyproject.toml leave it out"


def test_the_wheel_has_nothing_else(built: Distributions) -> None:
    tops = {name.split("/")[0] for name in of_wheel(built.wheel)}
    assert {top for top in tops if not top.startswith("tx8-")} == set(PACKAGES)


def test_the_wheel_has_documents_and_examples(built: Distributions) -> None:
    assert built.wheel.name.split("-")[1] == VERSION
    found = {name.removeprefix(DOCUMENTS) for name in of_wheel(built.wheel)}
    expected = {
        name
        for name in built.files
        if name.startswith(("docs/", "examples/", "editors/")) or re.fullmatch(r"\w+\.md", name)
    }
    assert len(expected) > 100
    assert sorted(expected - found) == []


# --- installed ----------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("tool", ["tx8as", "tx8dis", "tx8emu", "tx8cc", "tx8opt"])
def test_documents_that_help_names_are_there(installed: Environment, tool: str) -> None:
    """Help says how to find the documents that it names."""
    shown = installed.run(tool, "--help")
    assert shown.returncode == 0, shown.stderr
    named = set(re.findall(r"docs/[\w/]+\.md", shown.stdout))
    assert not named or "python -m tx8" in shown.stdout
    assert [name for name in named if not (home_of(installed) / name).is_file()] == []


def home_of(installed: Environment) -> Path:
    """The folder that ``python -m tx8`` prints for the README."""
    shown = installed.run("python", "-m", "tx8")
    assert shown.returncode == 0, shown.stderr
    (readme,) = re.findall(r"^README\.md +(.*)$", shown.stdout, re.MULTILINE)
    return Path(readme).parent


@pytest.mark.long
def test_help_names_documents(installed: Environment) -> None:
    """So that the test above looks at something."""
    for tool in ("tx8cc", "tx8emu"):
        assert "docs/" in installed.run(tool, "--help").stdout


@pytest.mark.long
def test_the_documents_are_those_of_the_environment(installed: Environment) -> None:
    assert home_of(installed) == installed.bin.parent / "share/doc/tx8"


@pytest.mark.long
def test_an_installed_program_runs(installed: Environment) -> None:
    examples = home_of(installed) / "examples"
    for command in (
        ("tx8as", str(examples / "assembly/hello.s"), "-o", "hello.bin"),
        ("tx8emu", "hello.bin"),
        ("tx8cc", str(examples / "mlp/mlp.json"), "-o", "mlp", "--run"),
        ("python", "-c", "import tx8; print(tx8.load('hello.bin').run().cycles)"),
    ):
        run = installed.run(*command)
        assert run.returncode == 0, f"{command}: {run.stderr}"
    assert installed.run("tx8emu", "hello.bin").stdout.startswith("hello from tile 00")


@pytest.mark.long
def test_the_first_tasks_go_through(installed: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the programs and the examples of the wheel."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for number, task in enumerate(TASKS):
        folder = installed.folder / f"task{number}"
        folder.mkdir()
        (folder / "examples").symlink_to(home_of(installed) / "examples")
        carry_out(task, folder, installed.bin)


@pytest.mark.long
def test_a_checkout_is_not_taken_for_the_package(built: Distributions, tmp_path: Path) -> None:
    """After ``pip install -e``, in the folder that holds the checkout: it is called like the package."""
    editable = environment(tmp_path, "-e", built.folder / "tx8")
    run = editable.run("python", "-c", "import tx8; print(tx8.compile.__module__)", cwd=built.folder)
    assert run.stdout == "tx8.program\n", run.stderr


@pytest.mark.long
def test_the_tests_of_the_source_distribution_run(built: Distributions, installed: Environment) -> None:
    """All are collected. Those of layouts and links pass, with the packages that the wheel installed."""
    with tarfile.open(built.sdist) as archive:
        archive.extractall(built.folder / "unpacked", filter="data")
    (folder,) = (built.folder / "unpacked").iterdir()
    pytest_of = ("python", "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    collected = installed.run(*pytest_of, "--collect-only", cwd=folder)
    assert collected.returncode == 0, collected.stdout[-3000:]
    run = installed.run(*pytest_of, "tests/tx8isa/test_layouts.py", "tests/tx8/test_programs.py", cwd=folder)
    assert run.returncode == 0, run.stdout[-3000:]
    links = installed.run(*pytest_of, "tests/project/test_docs.py", "-k", "links", cwd=folder)
    assert links.returncode == 0, links.stdout[-3000:]
