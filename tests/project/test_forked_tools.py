"""Commands in forked processes behave like the installed ones, which are started if there is doubt."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from documents import INSTALLED
from forked_tools import forked_tools

SHOW = "import os, sys; print(sys.argv, os.getcwd(), os.environ.get('WHAT'), sys.path[0]); "
FILES = {
    "one.s": "nop\nli a0, 3\nli a7, 93\necall\n",
    "shown.py": SHOW,
    "failing.py": "def f():\n    raise ValueError('so')\nf()\n",
    "late.py": "import atexit; atexit.register(print, 'last'); print('first')\n",
    "text.py": "raise SystemExit('a text')\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def done(command: str, folder: Path, programs: Path) -> tuple[int, str, str]:
    """Exit status, output and messages of a command whose programs are those in a folder."""
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "WHAT": "this"}
    ran = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        "tx8as one.s && tx8emu one.bin --max-instructions 9",
        "tx8as -q one.s; tx8emu -q one.bin",
        "tx8dis - < one.s",
        "tx8cc --no-such",
        "tx8opt nothing.onnx --until import",
        f'python -c "{SHOW}" a "b c"',
        "python shown.py -c x",
        "echo 'print(input())' > echo.py; echo line | python echo.py",
        "python -m json.tool --compact <<< '[1, 2]'",
        "python late.py",
        "python text.py",
        "python failing.py 2>&1 | tail -1",
        "python -c 'raise SystemExit(300)'",
        "tx8emu --instructions | head -1",
    ],
)
def test_a_command_does_what_the_installed_one_does(command: str, folder: Path, programs: Path) -> None:
    assert done(command, folder, programs) == done(command, folder, INSTALLED)


def test_the_status_of_a_process_that_was_killed(folder: Path, programs: Path) -> None:
    command = "python -c 'import os; os.kill(os.getpid(), 9)'; echo $?"
    assert done(command, folder, programs)[1] == done(command, folder, INSTALLED)[1] == "137\n"


IS_FORKED = "import sys; print('compiler.cli' in sys.modules)"


@pytest.mark.parametrize(
    ("before", "forked"),
    [
        ("", True),
        ("TX8_CACHE_DIR=kept ", False),
        ("PYTHONPATH=elsewhere ", False),
        ("touch compiler.py; ", False),
        ("mkdir numpy; ", False),
        ("touch another.py; mkdir another; ", True),
    ],
)
def test_a_process_of_its_own_where_what_is_loaded_could_matter(
    before: str, forked: bool, folder: Path, programs: Path
) -> None:
    assert done(f'{before}python -c "{IS_FORKED}"', folder, programs) == (0, f"{forked}\n", "")


def test_an_option_of_python_is_one_of_the_installed_one(folder: Path, programs: Path) -> None:
    assert done("python -X dev -c 'import sys; print(sys.flags.dev_mode)'", folder, programs)[1] == "True\n"


def test_what_called_is_gone(folder: Path, programs: Path) -> None:
    """The process ends with the program that represents it."""
    text = "import os, time; print(os.getpid(), flush=True); time.sleep(1000)"
    with subprocess.Popen([programs / "python", "-c", text], cwd=folder, stdout=subprocess.PIPE) as caller:
        assert caller.stdout is not None
        child = int(caller.stdout.readline())
        caller.send_signal(signal.SIGKILL)
    for _ in range(600):
        if not Path(f"/proc/{child}").exists():
            return
        time.sleep(0.1)
    pytest.fail(f"process {child} is still there")


def test_without_a_server_a_command_fails(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "tools").mkdir()
    with forked_tools(tmp_path / "tools") as programs:
        assert done("tx8as --version", folder, programs)[0] == 0
    assert done("tx8as --version", folder, programs)[0] != 0
