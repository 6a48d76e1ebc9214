"""The options of all tools: a usage error is one line, and one name has one meaning."""

from __future__ import annotations

from argparse import Action
from collections import defaultdict
from collections.abc import Callable

import pytest

import compiler.tools.options.usage
from asm.cli import assemble_parser, disassemble_parser
from compiler.tools.opt import make_parser as tx8opt_parser
from compiler.tools.options import make_parser as tx8cc_parser
from emulator.cli.options import _OF_MODES
from emulator.cli.options import make_parser as tx8emu_parser
from tx8isa.tools.command_line import ToolParser

PARSERS: dict[str, Callable[[], ToolParser]] = {
    "tx8as": assemble_parser,
    "tx8dis": disassemble_parser,
    "tx8cc": tx8cc_parser,
    "tx8opt": tx8opt_parser,
    "tx8emu": tx8emu_parser,
}


def named(parser: ToolParser) -> dict[str, Action]:
    """The options of a tool by their long names."""
    return {name: a for a in parser._actions for name in a.option_strings if name.startswith("--")}


@pytest.mark.parametrize("tool", PARSERS)
@pytest.mark.parametrize("words", [[], ["--no-such"], ["a", "--machine"], ["a\x1b[31m\nb", "c", "--no-such"]])
def test_a_usage_error_is_one_line(tool: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        PARSERS[tool]().parse_args(words)
    captured = capsys.readouterr()
    assert (left.value.code, captured.out) == (2, "")
    assert captured.err.startswith(f"{tool}: error: ") and captured.err.endswith(f"; see {tool} --help\n")
    assert captured.err.count("\n") == 1 and captured.err[:-1].isprintable()


def test_one_name_means_one_thing() -> None:
    """Equal options of several tools take the same kind of value."""
    found: dict[str, dict[str, Action]] = defaultdict(dict)
    for tool, make in PARSERS.items():
        for name, action in named(make()).items():
            found[name][tool] = action
    for name, actions in found.items():
        kinds = {(action.dest, action.nargs, type(action)) for action in actions.values()}
        assert len(kinds) == 1, (name, list(actions))
    owners = {name: list(found[name]) for name in ("--timing", "--pass-times", "--seed", "--explore-seed")}
    assert owners == {
        "--timing": ["tx8emu"],
        "--pass-times": ["tx8cc"],
        "--seed": ["tx8cc"],
        "--explore-seed": ["tx8emu"],
    }


@pytest.mark.parametrize("tool", ["tx8cc", "tx8emu"])
def test_many_options_are_in_groups(tool: str) -> None:
    groups = PARSERS[tool]()._action_groups
    assert max(len(group._group_actions) for group in groups) <= 20
    assert sum(bool(group._group_actions) for group in groups) >= 5


def test_the_modes_take_options_that_there_are() -> None:
    """A name of the lists that is no option would refuse the option that it stands for."""
    for make, modes in ((tx8cc_parser, compiler.tools.options.usage._OF_MODES), (tx8emu_parser, _OF_MODES)):
        known = {action.dest for action in make()._actions}
        for mode, taken in modes.items():
            assert {mode[2:].replace("-", "_"), *taken} <= known, mode
            assert taken < known
