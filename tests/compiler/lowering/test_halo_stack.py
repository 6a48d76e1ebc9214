"""Stacks whose tiles exchange the rows at the edges of their bands, with the bits of separate groups."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import emulator
from asm.image import read_image, write_image
from compiler.codegen.kernel import Kernel
from compiler.driver import Program, compile_graph
from compiler.graph import Graph, GraphError
from compiler.lowering.record import Work
from compiler.lowering.stack import halo
from compiler.lowering.stack import stack as stack_module
from compiler.lowering.stack.bands import Bands, bands_of, halos_of, owned_stages, steps_of
from compiler.lowering.stack.stages import Stages, after_pools, last_pieces, stages_of
from compiler.passes.groups import borders
from compiler.passes.patterns import PatternTrie, load_patterns
from compiler.tools.run import check, execute, random_inputs
from planned_cuts import cut_into_bands, plan_with_cut
from stack_nets import HALVED, PADDED, Net, bottleneck, fire, fires, stem


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if barriers took so long that every stack is worth it."""
    monkeypatch.setattr(borders, "barrier_cycles", lambda machine: 10**9)


def pools() -> Graph:
    """Pointwise operators before, between and after two pools of maxima."""
    net = Net(1, 24, 27, 11)
    net.node("Relu", [net.conv("x", "a", (40, 24, 3, 3), **PADDED)], "b")
    net.node("MaxPool", ["b"], "c", kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    net.node("HardSwish", ["c"], "d")
    net.node("Relu", ["d"], "e")
    net.node("MaxPool", ["e"], "f", kernel_shape=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1))
    net.node("Relu", ["f"], "g")
    net.conv("g", "y", (24, 40, 3, 3), **PADDED)
    return net.graph()


def tower() -> Graph:
    """Windows one after another, one of which halves the rows, two bottlenecks, and a value that two windows
    of different heights read."""
    net = Net(1, 40, 26, 9)
    net.node("Relu", [net.conv("x", "a", (96, 40, 5, 5), pads=(2, 2, 2, 2))], "b")
    net.node("MaxPool", ["b"], "c", kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    net.node("Relu", [net.conv("c", "d", (130, 96, 3, 3), **PADDED)], "e")
    net.node("Add", [net.conv("e", "f", (130, 130, 3, 3), bias=False, **PADDED), "e"], "g")
    net.conv("g", "h", (64, 130, 5, 5), pads=(2, 2, 2, 2))
    net.node("Relu", [net.conv("g", "i", (64, 130, 3, 3), **PADDED)], "j")
    net.node("Add", ["h", "j"], "y")
    return net.graph()


def residuals() -> Graph:
    """Values of several planes that are added to sums two steps later."""
    net = Net(1, 256, 28, 14)
    for number, x in enumerate(("x", "r0", "r1")):
        net.node("Relu", [net.conv(x, f"p{number}", (64, 256, 1, 1))], f"q{number}")
        net.node("Relu", [net.conv(f"q{number}", f"s{number}", (64, 64, 3, 3), **PADDED)], f"d{number}")
        net.node("Add", [net.conv(f"d{number}", f"e{number}", (256, 64, 1, 1)), x], f"f{number}")
        net.node("Relu", [f"f{number}"], "y" if number == 2 else f"r{number}")
    return net.graph()


def narrowing() -> Graph:
    """A pool without padding, whose windows end beyond twice the rows of the result."""
    net = Net(1, 24, 23, 10)
    net.node("Relu", [net.conv("x", "a", (80, 24, 3, 3), **PADDED)], "b")
    net.node("MaxPool", ["b"], "c", kernel_shape=(3, 3), strides=(2, 2))
    net.node("Relu", [net.conv("c", "d", (16, 80, 3, 3), **PADDED)], "y")
    return net.graph()


NETS = {
    "bottleneck": bottleneck,
    "fire": fire,
    "fire and pool": lambda: fire(True),
    "fires": fires,
    "fires of several planes": lambda: fires(squeezed=80, expanded=130, rows=15),
    "fires of different steps": lambda: fires(expanded=64, last="Sigmoid"),
    "stem": stem,
    "pools": pools,
    "join": lambda: joined("the join"),
    "tower": tower,
    "residuals": residuals,
    "narrowing": narrowing,
}


def apart() -> PatternTrie:
    """The default patterns without the stacks."""
    found = load_patterns("default")
    assert found is not None
    return replace(found, sequences=())


def planned(made: Graph, dtype: str, tiles: int, folder: Path, busy: int = 0) -> Program:
    """The program in which the only stack exchanges halos, as a plan says; ``busy``: most tiles with rows."""
    plan = plan_with_cut(made, dtype, tiles, "stacked", cut_into_bands(made, busy or tiles), folder)
    return compile_graph(made, dtype, tiles, plan=plan)


HOW = [("fp16", 7), ("fp32", 4), ("bf16", 5)]
CASES = [(name, *how) for name in NETS for how in HOW]
CASES += [(name, "fp16", 16) for name in ("bottleneck", "fire and pool", "fires", "narrowing", "residuals")]
CASES.remove(("tower", "fp32", 4))  # two stacks are faster there


@pytest.mark.parametrize(("name", "dtype", "tiles"), CASES)
def test_same_bits_and_no_hazards(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, dtype: str, tiles: int
) -> None:
    made = NETS[name]()
    assert_same_bits(made, planned(made, dtype, tiles, tmp_path), monkeypatch, dtype, tiles)


@pytest.mark.long
@pytest.mark.parametrize(("name", "tiles"), [("fires", 16), ("residuals", 16), ("bottleneck", 7)])
def test_same_bits_on_half_of_the_tiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, tiles: int
) -> None:
    """The others load weights and send them to those that have rows."""
    made, half = NETS[name](), tiles // 2
    program = planned(made, "fp16", tiles, tmp_path, half)
    sent = [line for line in program.text.split("\n") if "dte.broadcast" in line]
    count = cut_into_bands(made, half)["tiles"]["rows"]
    assert count <= half and any(f"tiles={(1 << count) - 1}," in line for line in sent)
    assert_same_bits(made, program, monkeypatch, "fp16", tiles)


@pytest.mark.long
@pytest.mark.parametrize(("name", "dtype", "tiles"), [("residuals", "fp16", 16), ("tower", "bf16", 5)])
def test_tiles_load_parts_of_the_later_biases_for_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, dtype: str, tiles: int
) -> None:
    """Every tile loads the weights of the first step; those of the next step arrive with them."""
    made = NETS[name]()
    whole = planned(made, dtype, tiles, tmp_path)
    monkeypatch.setattr(halo, "_WORTH_GATHERING", 0)
    program = planned(made, dtype, tiles, tmp_path)
    (all_bytes,) = bias_bytes(whole)
    first, later = bias_bytes(program)
    assert first < all_bytes == first + later
    assert re.findall(r"rdma.fp32 +dst=\S+, src=(\S+bias_data\S*),", program.text) == ["p1.bias_data"]
    assert re.search(r"li +(\w+), p1.bias2\n(?:.*\n){1,12} +dte.broadcast +dst=\1,", program.text)
    assert_same_bits(made, program, monkeypatch, dtype, tiles)


def growing() -> Graph:
    """A last convolution with over twice as many weights as the one before."""
    net, value = Net(1, 24, 22, 9), "x"
    for number, maps in enumerate((40, 48, 160)):
        before = (24, 40, 48)[number]
        value = net.conv(value, "y" if maps == 160 else f"c{number}", (maps, before, 3, 3), **PADDED)
    return net.graph()


@pytest.mark.parametrize(("dtype", "tiles"), [("fp16", 16), ("bf16", 5)])
def test_weights_that_are_sent_in_two_steps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dtype: str, tiles: int
) -> None:
    made = growing()
    cut = cut_into_bands(made, tiles)
    cut["sizes"]["ahead"] = 2
    plan = plan_with_cut(made, dtype, tiles, "stacked", cut, tmp_path)
    program = compile_graph(made, dtype, tiles, plan=plan)
    at_once = planned(made, dtype, tiles, tmp_path)
    assert program.text.count("dte.broadcast") == at_once.text.count("dte.broadcast") + 1
    assert_same_bits(made, program, monkeypatch, dtype, tiles)


@pytest.mark.parametrize(("ahead", "together", "loads"), [(1, 2, 2), (2, 3, 1)])
@pytest.mark.parametrize(("dtype", "tiles"), [("fp16", 16), ("bf16", 5)])
def test_one_load_of_the_weights_of_several_steps(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    dtype: str,
    tiles: int,
    ahead: int,
    together: int,
    loads: int,
) -> None:
    made = growing()
    cut = cut_into_bands(made, tiles)
    cut["sizes"] |= {"ahead": ahead, "together": together} if ahead > 1 else {"together": together}
    plan = plan_with_cut(made, dtype, tiles, "stacked", cut, tmp_path)
    program = compile_graph(made, dtype, tiles, plan=plan)
    assert len(re.findall(rf"rdma\.{dtype} +dst=\S+\.part", program.text)) == loads
    assert_same_bits(made, program, monkeypatch, dtype, tiles)


def test_weights_cannot_be_sent_three_steps_ahead(tmp_path: Path) -> None:
    made = growing()
    cut = cut_into_bands(made, 16)
    cut["sizes"]["ahead"] = 3
    plan = plan_with_cut(made, "fp16", 16, "stacked", cut, tmp_path)
    with pytest.raises(GraphError, match="the rows are divided into 11 bands of 2"):
        compile_graph(made, "fp16", 16, plan=plan)


def bias_bytes(program: Program) -> list[int]:
    """Bytes of the biases of a program, run by run."""
    return [
        4 * int(numbers) for numbers in re.findall(r"\.const \S+bias_data\S*, fp32, (\d+),", program.text)
    ]


def assert_same_bits(
    made: Graph, program: Program, monkeypatch: pytest.MonkeyPatch, dtype: str, tiles: int
) -> None:
    """Assert that a program gives the bits of the program without stacks, and has no hazards."""
    with monkeypatch.context() as patch:
        patch.setattr("compiler.passes.compilation.load_patterns", lambda name: apart())
        other = compile_graph(made, dtype, tiles)
    inputs = random_inputs(made, {}, 3)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    found = dict(loaded.run(inputs, strict=True))
    assert loaded.hazards == ()
    for key, values in execute(other, inputs)[0].items():
        np.testing.assert_array_equal(found[key], values, err_msg=key)


@pytest.mark.parametrize(
    ("made", "tiles"), [(fire(True), 16), (fires(), 7), (fires(squeezed=48, rows=15), 7), (bottleneck(), 4)]
)
def test_right_where_lines_are_written_to_their_end(made: Graph, tiles: int, tmp_path: Path) -> None:
    """Engines' writes after the end of a result hit no live data."""
    program = planned(made, "fp16", tiles, tmp_path)
    inputs = random_inputs(made, {}, 3)
    loaded = emulator.Program(read_image(write_image(program.image), "prog.bin"), program.machine)
    expected = dict(loaded.run(inputs))
    for key, values in loaded.run(inputs, write_span="hostile").items():
        np.testing.assert_array_equal(values, expected[key])


@pytest.mark.parametrize(
    ("squeezed", "tiles", "spread", "moved", "shuffled"),
    [(48, 16, 5, 2, 4), (24, 7, 7, 2, 4), (80, 7, 9, 12, 8)],
)
def test_fire_modules_in_few_instructions(
    tmp_path: Path, squeezed: int, tiles: int, spread: int, moved: int, shuffled: int
) -> None:
    """Biases begin the sums of several stages. Rows of one plane arrive at their final places, except those
    after the tile's own rows. A join has one ReLU, after its pool if there is one."""
    program = planned(fires(squeezed), "fp16", tiles, tmp_path)
    text = program.text[: program.text.rindex("ne.gemm")]  # after it the result gets another layout
    begun = text.count("src_stride0=0,")
    assert (begun, text.count("td.gatherscatter") - begun) == (spread, moved)
    assert program.text.count("dte.shuffle") == shuffled
    assert program.text.count("ct.relu") == 5  # two squeezes, two joins, the last convolution


def test_other_workers_begin_when_earlier_phases_are_complete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing orders them with worker 0's remaining work for the phase before in the same buffers."""
    begun: list[bool] = []
    on_worker = Kernel.on_worker

    def noted(kernel: Kernel, worker: int) -> AbstractContextManager[None]:
        begun.append(not kernel.synchronized)
        return on_worker(kernel, worker)

    monkeypatch.setattr(Kernel, "on_worker", noted)
    planned(fires(), "fp16", 7, tmp_path)
    assert begun
    assert all(begun)


@pytest.mark.long
def test_only_tiles_with_rows_get_weights(tmp_path: Path) -> None:
    program = planned(fires(), "fp16", 16, tmp_path)
    sent = [line for line in program.text.splitlines() if "dte.broadcast" in line]
    assert len(sent) == 3
    assert all("tiles=63," in line for line in sent)  # the pool leaves six rows


def joined(reader: str) -> Graph:
    """A join of two pieces with a ReLU, read by a pool of maxima or of means, or also by other operators."""
    net = Net(1, 24, 16, 8)
    net.node("Relu", [net.conv("x", "a", (64, 24, 1, 1))], "b")
    net.node("Relu", [net.conv("x", "c", (64, 24, 3, 3), **PADDED)], "d")
    net.node("Concat", ["b", "d"], "g", axis=1)
    pool = "AveragePool" if reader == "means" else "MaxPool"
    net.node(pool, ["g"], "h", kernel_shape=(2, 2), strides=(2, 2))
    if reader in ("maxima", "means"):
        net.conv("h", "y", (32, 128, 3, 3), **PADDED)
        return net.graph()
    net.conv("h", "i", (32, 128, 3, 3), **PADDED)
    other = {"the join": ("g", 128), "a piece": ("b", 64)}[reader]
    net.conv(other[0], "j", (32, other[1], 1, 1), strides=(2, 2))
    net.node("Add", ["i", "j"], "y")
    return net.graph()


@pytest.mark.parametrize(
    ("reader", "together", "after"), [("maxima", 2, 2), ("means", 2, 0), ("the join", 2, 0)]
)
def test_where_steps_are_applied(
    monkeypatch: pytest.MonkeyPatch, reader: str, together: int, after: int
) -> None:
    found = stages(monkeypatch, joined(reader))
    assert len(found.pieces) == 2
    assert (len(last_pieces(found)), len(after_pools(found))) == (together, after)


def test_a_piece_that_is_read_alone_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The join is then in no stack, and the program is still right."""
    made = joined("a piece")
    program = compile_graph(made, "fp16", 4)
    assert all(verdict.ok for verdict in check(program, random_inputs(made, {}, 3)).verdicts.values())


@pytest.mark.long
def test_different_steps_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stages(monkeypatch, fires(last="Sigmoid"))
    assert (len(found.pieces), len(last_pieces(found)), len(after_pools(found))) == (4, 2, 0)


def test_sums_of_binary32_are_not_rounded_before_their_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stages(monkeypatch, joined("maxima"), "fp32")
    assert (len(last_pieces(found)), len(after_pools(found))) == (0, 0)


def stages(monkeypatch: pytest.MonkeyPatch, made: Graph, dtype: str = "fp16") -> Stages:
    """The stages of the only stack of a graph."""
    found: list[Stages] = []

    def keep(work: Work) -> Stages:
        found.append(stages_of(work))
        return found[-1]

    with monkeypatch.context() as patch:
        patch.setattr(stack_module, "stages_of", keep)
        compile_graph(made, dtype, 4)
    return max(found, key=lambda each: len(each.order))


@pytest.mark.long
def test_every_row_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bands of all tiles cover the rows of each value; only the last rows of a window that ends beyond
    them are in two bands."""
    for made, twice in ((tower(), 0), (narrowing(), 1)):
        owned = owned_stages(stages(monkeypatch, made))
        bands = bands_of(owned, 5)
        assert bands is not None
        for stage in owned.order:
            rows, computed = stage.rows, list[int]()
            for tile in range(bands.count):
                begin = tile * bands.size
                count = min(bands.size, bands.rows - begin)
                end = min(rows.step * (begin + count - 1) + rows.high + 1, rows.limit)
                computed += range(rows.step * begin, end)
            assert sorted(set(computed)) == list(range(rows.limit))
            assert len(computed) - rows.limit <= twice * (bands.count - 1)


@pytest.mark.long
def test_steps_begin_where_windows_reach_over_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    owned = owned_stages(stages(monkeypatch, tower()))
    steps = steps_of(owned, {halo.symbol: at for at, halo in halos_of(owned)})
    assert [[(halo.above, halo.below) for halo in step.halos] for step in steps] == [
        [],
        [(1, 0)],
        [(1, 1)],
        [(1, 1)],
        [(2, 2)],
    ]
    assert [len(step.stages) for step in steps] == [1, 1, 1, 1, 2]


@pytest.mark.long
def test_bands_that_are_lower_than_a_halo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Rows of tiles that are not neighbours are needed, or there is no tile to exchange rows with."""
    found = stages(monkeypatch, tower())
    assert bands_of(found, 7) == Bands(7, 2, 13)
    assert bands_of(found, 13) is None
    assert bands_of(found, 1) is None
    with pytest.raises(GraphError, match="rows of a stack cannot be divided among neighbours"):
        planned(tower(), "fp16", 16, tmp_path)


def test_nothing_to_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(1, 64, 12, 12)
    net.node("Relu", [net.conv("x", "a", (64, 64, 3, 3), **HALVED)], "b")
    net.conv("b", "y", (96, 64, 1, 1))
    assert bands_of(stages(monkeypatch, net.graph()), 4) is None
