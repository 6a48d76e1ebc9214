"""Homes of values: printed and read again, and refused if they are impossible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from compiler.dialect.homes import WHOLE, Home, HomeAttr
from compiler.dialect.ops import tx8be
from ir_text import output, parsed, source

S = "1x64x8x8"
AXES = st.lists(st.sampled_from([WHOLE, "rows", "columns", "channels"]), min_size=1, max_size=5)


def read(text: str) -> HomeAttr:
    context = Context()
    context.load_dialect(tx8be())
    found = Parser(context, text).parse_attribute()
    assert isinstance(found, HomeAttr)
    return found


@given(axes=AXES, above=st.integers(0, 300), below=st.integers(0, 300))
def test_what_is_printed_can_be_read_again(axes: list[str], above: int, below: int) -> None:
    made = HomeAttr(Home(tuple(axes), above, below))
    assert read(str(made)) == made


def test_as_text() -> None:
    assert str(HomeAttr(Home(("rows", "rows", WHOLE)))) == "#tx8be.spm<rows, rows, whole>"
    assert str(HomeAttr(Home((WHOLE, "rows"), 0, 2))) == "#tx8be.spm<whole, rows, halo 0 2>"


@pytest.mark.parametrize("text", ["<>", "<rows columns>", "<rows, 3>", "<rows, halo 1>", "<rows, halo -1 2>"])
def test_text_that_is_none(text: str) -> None:
    with pytest.raises(ParseError):
        read(f"#tx8be.spm{text}")


def test_gathered() -> None:
    home = Home(("rows", "rows", "columns"))
    assert home.mesh_axes == ("rows", "columns")
    assert home.gathered("rows") == Home((WHOLE, WHOLE, "columns"))
    assert home.gathered("columns").gathered("rows").mesh_axes == ()


@pytest.mark.parametrize(
    ("home", "problem"),
    [
        (Home(("rows",)), "a home of 1 axes for a value of 2"),
        (Home((WHOLE, WHOLE), 1, 0), "a halo without a sharded axis"),
    ],
)
def test_homes_that_a_matrix_cannot_have(home: Home, problem: str) -> None:
    assert home.problem(2) == problem


def test_axes_that_are_dealt_as_one_are_neighbours() -> None:
    assert Home(("rows", "rows", WHOLE)).problem(3) is None
    assert Home(("rows", WHOLE, "rows")).problem(3) == "mesh axis 'rows' shards axes that are not neighbours"


CUT = "cut = {tiles = {rows = 4 : i64}}"
OWN = "#tx8be.spm<whole, whole, rows, whole>"
HALO = "#tx8be.spm<whole, whole, rows, whole, halo 1 1>"
ALL = "#tx8be.spm<whole, whole, whole, whole>"


def exchanged(kind: str, before: str, after: str, axis: str = "rows", cut: str = CUT) -> str:
    """A group that exchanges its first member's result before the second one reads it."""
    tensor = f"tensor<{S}xf16>"
    unary = f"({tensor}) -> {tensor}"

    def member(op: str, name: str, operand: str, more: str) -> str:
        dtypes = 'onnx = {}, operands_at = array<i64: 0>, dtypes = ["float32", "float32"]'
        return f'%{name} = "tx8be.{op}"(%{operand}) {{node = "{name}", {dtypes}{more}}} : {unary}'

    body = [
        f"^bb0(%in : {tensor}):",
        member("relu", "a", "in", f", home = {before}" if before else ""),
        f'%g = "tx8be.{kind}"(%a) {{node = "a", axis = "{axis}", home = {after}}} : {unary}',
        member("exp", "b", "g", ""),
    ]
    inner = "\n".join(body)
    return f'%y = "tx8be.group"(%x) ({{\n{inner}\n}}) {{node = "a", {cut}}} : {unary}'


@pytest.mark.parametrize(("kind", "after"), [("all_gather", ALL), ("halo_exchange", HALO)])
def test_exchanges_are_read(kind: str, after: str) -> None:
    module = parsed("\n".join([source("x", "x", S), exchanged(kind, OWN, after), output("y", "y", S)]))
    assert f'axis = "rows", home = {after}' in str(module)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (exchanged("all_gather", "", ALL), "need homes in the scratchpads"),
        (exchanged("all_gather", OWN, ALL, "columns"), "not sharded along mesh axis 'columns'"),
        (exchanged("all_gather", OWN, HALO), "gathered along 'rows'.* is spm<whole, whole, whole, whole>"),
        (exchanged("halo_exchange", OWN, OWN), "a halo changes the rows next to a shard"),
        (exchanged("halo_exchange", OWN, ALL), "a halo changes the rows next to a shard"),
        (exchanged("all_gather", OWN, ALL, cut="cut = {}"), "mesh axis 'rows'; the cut has none"),
        (exchanged("all_gather", "#tx8be.spm<rows>", ALL), "a home of 1 axes for a value of 4"),
    ],
)
def test_exchanges_that_are_refused(line: str, problem: str) -> None:
    with pytest.raises(VerifyException, match=problem):
        parsed("\n".join([source("x", "x", S), line, output("y", "y", S)]))
