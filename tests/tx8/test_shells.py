"""Completion in shells and manual pages know every option that ``--help`` knows.

The oracle is the tools' output, and for completion a real bash.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from paths import ROOT
from tx8.__main__ import main
from tx8.desktop.pages import roff, write_pages
from tx8.desktop.parsers import TOOLS, hyphened, parser_of, takes

BIN = Path(sys.executable).parent


def need_shtab() -> None:
    if importlib.util.find_spec("shtab") is None and os.environ.get("CI") != "true":
        pytest.skip("shtab is not installed: pip install shtab")


@cache
def options_of(tool: str) -> frozenset[str]:
    """The options that ``--help`` shows."""
    first, *rest = tool.split()
    shown = subprocess.run([BIN / first, *rest, "--help"], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^  (-.*?)(?:  |$)", shown, re.MULTILINE)
    return frozenset(name for line in found for name in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", line))


@pytest.fixture(scope="module")
def script() -> str:
    need_shtab()
    command = [sys.executable, "-m", "tx8", "completion", "bash"]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def completed(script: str, words: list[str], folder: Path) -> list[str]:
    """Return bash's completions of the last word."""
    asked = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
    function = f"$(complete -p {words[0]} | sed -E 's/.* -F ([^ ]+) .*/\\1/')"
    lines = f'{script}\n{asked}\n{function} {words[0]}\nprintf "%s\\n" "${{COMPREPLY[@]}}"\n'
    run = subprocess.run(["bash"], input=lines, capture_output=True, text=True, check=True, cwd=folder)
    assert run.stderr == ""
    return sorted(set(run.stdout.split()))


@pytest.mark.parametrize("tool", TOOLS)
def test_bash_completes_every_option(tool: str, script: str, tmp_path: Path) -> None:
    assert len(options_of(tool)) > 4
    assert set(completed(script, [*tool.split(), "-"], tmp_path)) == options_of(tool)


def test_bash_completes_a_part_of_an_option_and_files(script: str, tmp_path: Path) -> None:
    for name in ("prog.s", "prog.bin"):
        (tmp_path / name).touch()
    (tmp_path / "proper").mkdir()
    assert completed(script, ["tx8emu", "--output-d"], tmp_path) == ["--output-dir"]
    assert completed(script, ["tx8as", "prog"], tmp_path) == ["prog.bin", "prog.s"]
    assert completed(script, ["tx8emu", "--output-dir", "pro"], tmp_path) == ["proper"]


def test_bash_completes_a_command_of_a_tool(script: str, tmp_path: Path) -> None:
    """The judge is one; a file may begin like its name."""
    for name in ("judged.bin", "spec.py", "relu.s"):
        (tmp_path / name).touch()
    assert completed(script, ["tx8emu", "ju"], tmp_path) == ["judge", "judged.bin"]
    assert completed(script, ["tx8emu", "judged"], tmp_path) == ["judged.bin"]
    assert completed(script, ["tx8emu", "judge", "re"], tmp_path) == ["relu.s"]
    assert completed(script, ["tx8emu", "judge", "relu.s", "--spec", "sp"], tmp_path) == ["spec.py"]
    assert completed(script, ["tx8emu", "judge", "--js"], tmp_path) == ["--json"]
    assert completed(script, ["tx8emu", "relu.s", "--output-d"], tmp_path) == ["--output-dir"]


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_other_shells_have_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    need_shtab()
    assert main(["completion", shell]) == 0
    shown = capsys.readouterr().out
    assert [tool for tool in TOOLS if tool not in shown and " " not in tool] == []
    assert "dump-tensor" in shown


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    need_shtab()
    assert main(["completion", "bahs"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("tx8: error: no completion for shell 'bahs': known are bash ")
    assert said.endswith("did you mean 'bash'?\n")


def test_without_shtab_the_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert capsys.readouterr().err == "tx8: error: completion needs shtab: pip install shtab\n"


@pytest.mark.parametrize("arguments", [["completion"], ["man"], ["mann", "x"], ["man", "a", "b"]])
def test_wrong_commands_are_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("usage: python -m tx8 ")


def test_arguments_that_are_files_or_folders() -> None:
    kinds = {action.dest: takes(action) for action in parser_of("tx8emu")._actions}
    assert kinds["program"] == kinds["input"] == kinds["dump_spm"] == "file"
    assert kinds["output_dir"] == "folder"
    assert kinds["threads"] == kinds["dump_ddr"] == ""


# --- manual pages -------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_a_manual_page_says_what_help_says(tool: str, tmp_path: Path) -> None:
    """Every option with its text, and every line of the examples."""
    assert main(["man", str(tmp_path / "man1")]) == 0
    text = (tmp_path / f"man1/{hyphened(tool)}.1").read_text(encoding="utf-8")
    plain = " ".join(text.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\").split())
    for action in parser_of(tool)._actions:
        assert [name for name in action.option_strings if name not in plain] == []
        first_words = " ".join((action.help or "").split("%")[0].split())
        assert first_words in plain
    examples = (parser_of(tool).epilog or "").splitlines()
    assert len(examples) > 3
    assert [line for line in examples if " ".join(line.partition(":")[2].split()) not in plain] == []


@pytest.mark.parametrize("tool", TOOLS)
def test_groff_sets_a_manual_page_without_a_warning(tool: str, tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    write_pages(tmp_path)
    command = ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", str(tmp_path / f"{hyphened(tool)}.1")]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    assert set(re.findall(r"(?<![\w-])--[a-z][\w-]*", run.stdout)) >= {
        name for name in options_of(tool) if name.startswith("--")
    }


def test_characters_of_roff_mean_themselves() -> None:
    assert roff(".a 'b'\n'c' \\d -e") == "\\&.a 'b'\n\\&'c' \\ed \\-e"
