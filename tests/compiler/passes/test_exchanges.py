"""The exchanges in the module are those of the program: moved, omitted, or missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

import emulator
from asm.image import read_image, write_image
from compiler.dialect.exchanges import ExchangeOperation
from compiler.dialect.group import tensor_operations
from compiler.dialect.homes import Home, HomeAttr
from compiler.dialect.ops import GroupOp, LoadConstOp, TensorOperation
from compiler.driver import Program, compile_graph
from compiler.graph import Graph, GraphError
from compiler.passes import PIPELINE, compilation
from compiler.passes.base import Context, operations
from compiler.tools.run import check, random_inputs
from planned_cuts import cut_into_bands, plan_with_cut
from sharded_nets import normalized_first
from stack_nets import bottleneck

Edit = Callable[[list[ExchangeOperation]], None]


def exchanges(module: ModuleOp) -> Iterator[ExchangeOperation]:
    for group in operations(module):
        if isinstance(group, GroupOp):
            found = tensor_operations(group.body.block)
            yield from (each for each in found if isinstance(each, ExchangeOperation))


class Edited:
    """A pass that changes the exchanges of a module, like an edit by hand."""

    name = "edited"

    def __init__(self, edit: Edit) -> None:
        self.edit = edit

    def run(self, context: Context, module: ModuleOp) -> None:
        self.edit(list(exchanges(module)))


def edited(
    monkeypatch: pytest.MonkeyPatch, made: Graph, edit: Edit, tiles: int = 16, plan: Path | None = None
) -> Program:
    """The program of a module whose exchanges were changed."""
    after = next(at for at, step in enumerate(PIPELINE) if step.name == "group_load_store") + 1
    monkeypatch.setattr(compilation, "PIPELINE", (*PIPELINE[:after], Edited(edit), *PIPELINE[after:]))
    return compile_graph(made, "fp16", tiles, plan=plan)


def assert_right(program: Program) -> None:
    """Close to the reference and without hazards."""
    inputs = random_inputs(program.graph, {}, 3)
    assert all(verdict.ok for verdict in check(program, inputs).verdicts.values())
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    loaded.run(inputs, strict=True)
    assert loaded.hazards == ()


def is_of_weights(exchange: ExchangeOperation) -> bool:
    return isinstance(exchange.operands[0].owner, LoadConstOp)


def leave_out(exchange: ExchangeOperation) -> None:
    """Let its users have the operand; a constant is loaded in the form that the exchange would give it."""
    source = exchange.operands[0].owner
    if isinstance(source, LoadConstOp) and exchange.home is not None:
        source.attributes["home"] = HomeAttr(exchange.home.data)
    exchange.results[0].replace_all_uses_with(exchange.operands[0])
    Rewriter.erase_op(exchange)


def move_up(exchange: ExchangeOperation) -> None:
    """Move the exchange of a value directly after the value."""
    block, maker = exchange.parent_block(), exchange.operands[0].owner
    assert block is not None and isinstance(maker, TensorOperation)
    block.detach_op(exchange)
    block.insert_op_after(exchange, maker)


def in_bands(made: Graph, tiles: int, folder: Path) -> Path:
    """A plan that divides the only stack into bands of rows."""
    return plan_with_cut(made, "fp16", tiles, "stacked", cut_into_bands(made, tiles), folder)


def copies(program: Program) -> int:
    """Instructions that send something to other tiles."""
    return sum(program.text.count(name) for name in ("dte.broadcast", "dte.shuffle", "dte.unicast"))


def test_weights_that_every_tile_loads_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program then has no copies of weights, and gives equal bits."""
    made = normalized_first()

    def edit(found: list[ExchangeOperation]) -> None:
        for exchange in found:
            if is_of_weights(exchange):
                leave_out(exchange)

    shared, own = compile_graph(made, "fp16", 16), edited(monkeypatch, made, edit)
    assert copies(own) < copies(shared)
    assert_right(own)
    inputs = random_inputs(made, {}, 3)
    results = [emulator.Program(each.image, each.machine).run(inputs)["y"] for each in (shared, own)]
    assert results[0].tobytes() == results[1].tobytes()


def test_exchanges_that_come_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    made = normalized_first()
    moved: list[str] = []

    def edit(found: list[ExchangeOperation]) -> None:
        for exchange in found:
            if not is_of_weights(exchange):
                move_up(exchange)
                moved.append(exchange.kind)

    assert_right(edited(monkeypatch, made, edit))
    assert moved.count("all_gather") >= 3


def test_a_halo_that_is_exchanged_earlier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, kinds = bottleneck(), list[str]()

    def edit(found: list[ExchangeOperation]) -> None:
        kinds.extend(exchange.kind for exchange in found)
        for exchange in found:
            move_up(exchange)

    assert_right(edited(monkeypatch, made, edit, 7, in_bands(made, 7, tmp_path)))
    assert set(kinds) == {"halo_exchange"}


@pytest.mark.parametrize("tiles", [16, 7])
def test_an_exchange_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiles: int) -> None:
    made = normalized_first() if tiles == 16 else bottleneck()
    plan = in_bands(made, tiles, tmp_path) if tiles == 7 else None

    def edit(found: list[ExchangeOperation]) -> None:
        leave_out(next(exchange for exchange in found if not is_of_weights(exchange)))

    with pytest.raises(GraphError, match=r"node '.*' needs an earlier \w+ of .* along \w+"):
        edited(monkeypatch, made, edit, tiles, plan)


def housed(found: list[ExchangeOperation]) -> TensorOperation:
    """An operation with a home whose result no exchange reads."""
    (group,) = {exchange.parent_op() for exchange in found}
    assert isinstance(group, GroupOp)
    for operation in tensor_operations(group.body.block):
        read = any(isinstance(use.operation, ExchangeOperation) for use in operation.results[0].uses)
        if operation.home is not None and not read and operation not in found:
            return operation
    raise AssertionError


@pytest.mark.parametrize("tiles", [16, 7])
@pytest.mark.parametrize("gone", [False, True])
def test_a_home_that_the_cut_does_not_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiles: int, gone: bool
) -> None:
    made = normalized_first() if tiles == 16 else bottleneck()
    plan = in_bands(made, tiles, tmp_path) if tiles == 7 else None

    def edit(found: list[ExchangeOperation]) -> None:
        operation = housed(found)
        assert operation.home is not None
        if gone:
            del operation.attributes["home"]
        else:
            axes = operation.home.data.axes
            operation.attributes["home"] = HomeAttr(Home(("whole",) * len(axes)))

    where = "DDR" if gone else r"spm<whole(, whole)*>"
    with pytest.raises(GraphError, match=rf"puts its result in {where}, but the cut of its group in spm<.*>"):
        edited(monkeypatch, made, edit, tiles, plan)
