"""tx8 prints one line if it cannot run: on another system, or with its packages hidden or missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import tx8_entry.surroundings as surroundings
from paths import ROOT

COMMANDS = ("tx8as", "tx8dis", "tx8emu", "tx8cc", "tx8opt")
MAC = (
    "tx8 runs on Linux, and this is macOS: "
    "use a container (the Dockerfile in the sources), WSL or a virtual machine"
)


def python(program: str, folder: Path, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in ``folder``, with the checkout after ``path`` in PYTHONPATH."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT]))},
        capture_output=True,
        text=True,
        check=False,
    )


def start(command: str, setting: str = "") -> str:
    """A program that starts a command as its script does."""
    arguments = f"import sys; sys.argv = ['{command}', '--help']; {setting or 'pass'}"
    return f"{arguments}; from tx8_entry.commands import {command}; sys.exit({command}())"


def make(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- allowed surroundings -----------------------------------------------------------------


def test_nothing_is_refused_here() -> None:
    assert surroundings.refusal() is None


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_start(command: str, tmp_path: Path) -> None:
    run = python(start(command), tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"usage: {command}")


@pytest.mark.parametrize("name", ["kernels/__init__.py", "compilers.py", "test/asm/__init__.py"])
def test_other_folders_are_no_matter(name: str, tmp_path: Path) -> None:
    make(tmp_path / name)
    assert python("import tx8; tx8.assemble", tmp_path).returncode == 0


# --- hidden packages ----------------------------------------------------------------------


@pytest.mark.parametrize("package", surroundings.PACKAGES)
@pytest.mark.parametrize("shape", ["{}/__init__.py", "{}.py"])
def test_import_names_what_hides_a_package(package: str, shape: str, tmp_path: Path) -> None:
    """A folder or file next to the notebook, whose folder comes first in the path."""
    file = make(tmp_path / shape.format(package))
    hiding = file.parent if file.name == "__init__.py" else file
    run = python("import tx8", tmp_path)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1] == (
        f"ImportError: {hiding} hides the package '{package}' of tx8, because its folder comes first in "
        "sys.path: rename it, start Python in another folder, or take the folder out of PYTHONPATH"
    )


def test_a_module_that_is_loaded_already_hides_a_package(tmp_path: Path) -> None:
    """Also when its folder has left the path since."""
    make(tmp_path / "mine/compiler.py")
    program = "import sys; sys.path.insert(0, 'mine'); import compiler; del sys.path[0]; import tx8"
    run = python(program, tmp_path)
    assert f"{tmp_path / 'mine/compiler.py'} hides the package 'compiler' of tx8" in run.stderr


def test_a_script_with_the_name_of_a_package(tmp_path: Path) -> None:
    """``python asm.py``, which imports tx8: the script's folder comes first."""
    script = make(tmp_path / "asm.py", "import tx8\n")
    run = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"ImportError: {script} hides the package 'asm' of tx8" in run.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_name_what_hides_a_package(command: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "mine/emulator/__init__.py").parent
    run = python(start(command), tmp_path, tmp_path / "mine")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith(f"{command}: {folder} hides the package 'emulator' of tx8, because ")
    assert len(run.stderr.splitlines()) == 1


def test_pytest_runs_where_a_package_is_hidden(tmp_path: Path) -> None:
    """The plugin that pytest loads in every run must not fail in projects that do not use tx8."""
    make(tmp_path / "compiler/__init__.py")
    make(tmp_path / "test_one.py", "import compiler\n\ndef test_one():\n    assert compiler.__path__\n")
    options = ["-q", "-p", "pytest_tx8", "-p", "no:cacheprovider", "-p", "no:tx8"]
    program = f"import pytest, sys; sys.exit(pytest.main({options}))"
    run = python(program, tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(("spec", "file"), [(None, None), (None, "here/asm.py")])
def test_a_module_that_does_not_say_where_it_is_from(
    spec: None, file: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook or a test makes it in this way by hand."""
    module = ModuleType("asm")
    module.__spec__ = spec
    if file:
        module.__file__ = file
    monkeypatch.setitem(sys.modules, "asm", module)
    said = "here/asm.py hides the package 'asm' of tx8" if file else "its package 'asm' is missing"
    assert said in str(surroundings.refusal())


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "PACKAGES", ("asm", "no_such_package"))
    assert surroundings.refusal() == (
        f"tx8 is not complete: its package 'no_such_package' is missing from {ROOT}; install tx8 again"
    )


# --- other systems ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "name"), [("darwin", "macOS"), ("win32", "Windows"), ("freebsd14", "freebsd14")]
)
def test_other_systems_are_refused(platform: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert surroundings.refusal() == MAC.replace("macOS", name)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_refuse_other_systems(command: str, tmp_path: Path) -> None:
    run = python(start(command, "sys.platform = 'darwin'"), tmp_path)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", f"{command}: {MAC}\n")


def test_import_refuses_other_systems(tmp_path: Path) -> None:
    run = python("import sys; sys.platform = 'darwin'; import tx8", tmp_path)
    assert run.stderr.splitlines()[-1] == f"ImportError: {MAC}"
