"""The places of values in DDR: live ranges, joins and slices without code, outputs, constants."""

from __future__ import annotations

import itertools
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import compiler
from compiler.dialect.ops import NodeOperation
from compiler.graph import Graph, GraphError
from compiler.passes.base import computes, operations
from compiler.passes.ddr.barrier_opt import BarrierOptPass, settled_operands
from compiler.passes.ddr.ddr_reorder import DdrReorderPass
from compiler.passes.ddr.live_ranges import LiveRange, best_fit
from compiler.passes.ddr.placement import VARIABLES, DdrRange, result_range
from compiler.passes.groups.group_load_store import GroupLoadStorePass
from compiler.passes.groups.group_pattern import GroupPatternPass
from compiler.tools import run
from compiler_harness import assert_right, draw, graph, ints
from ir_text import after, context, node, output, parsed, source
from tx8isa.machine.description import load_machine

BANK = 4096
LIVE_RANGES = st.lists(
    st.builds(
        lambda first, length, size: LiveRange(first, first + length, size),
        st.integers(0, 30),
        st.integers(0, 12),
        st.integers(1, 5 * BANK),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(LIVE_RANGES)
def test_lives_never_overlap_in_space_and_time(lives: list[LiveRange]) -> None:
    addresses = best_fit(lives, BANK)
    assert len(addresses) == len(lives)
    assert all(address % BANK == 0 for address in addresses)
    for at, life in enumerate(lives):
        for other in range(at):
            apart = lives[other].last < life.first or life.last < lives[other].first
            ranges = [DdrRange("v", addresses[i], addresses[i] + lives[i].size) for i in (at, other)]
            assert apart or not ranges[0].overlaps(ranges[1])


def test_the_smallest_gap_is_taken() -> None:
    """Gaps of three banks and of one are left when b and d end."""
    lives = [
        LiveRange(0, 9, BANK),
        LiveRange(0, 1, 3 * BANK),
        LiveRange(0, 9, BANK),
        LiveRange(0, 1, BANK),
        LiveRange(0, 9, BANK),
    ]
    addresses = best_fit([*lives, LiveRange(2, 3, BANK)], BANK)
    assert addresses[-1] == addresses[3]


S = "1x64x8x8"
"""8 KiB in FP16."""


def chain(count: int, shape: str = S) -> str:
    names = ["x", *(f"t{i}" for i in range(count))]
    lines = [node("softmax", f"n{i}", names[i + 1], {names[i]: shape}, shape) for i in range(count)]
    return "\n".join([source("x", "x", shape), *lines, output("y", names[-1], shape)])


def places(module: ModuleOp) -> dict[str, DdrRange]:
    return {op.node.data: result_range(op) for op in operations(module) if op.results}


def test_what_was_written_before_the_last_barrier_is_settled() -> None:
    """c reads a, which the phase before last wrote, and b, which the last phase wrote; d reads a."""
    lines = [
        source("x", "x", S),
        node("softmax", "a", "a", {"x": S}, S),
        node("softmax", "b", "b", {"a": S}, S),
        node("mul", "c", "c", {"a": S, "b": S}, S),
        node("softmax", "d", "d", {"a": S}, S),
        *(output(name, name, S) for name in "cd"),
    ]
    module = after(parsed("\n".join(lines)), context(), DdrReorderPass(), BarrierOptPass())
    found = {
        operation.node.data: [
            value.owner.node.data for value in values if isinstance(value.owner, NodeOperation)
        ]
        for operation, values in settled_operands(module)
    }
    assert found == {"a": [], "b": [], "c": ["a"], "d": ["a"]}


def test_a_chain_of_phases_needs_room_for_two_values() -> None:
    found = places(after(parsed(chain(6)), context(), DdrReorderPass()))
    assert found["n5"] == DdrRange("y", 0, 8192)
    shared = [place for place in found.values() if place.symbol == VARIABLES]
    assert len(shared) == 5
    assert max(place.end for place in shared) == 16384
    for first, second in itertools.pairwise(shared):
        assert not first.overlaps(second)


def test_a_value_with_a_late_user_keeps_its_bytes() -> None:
    body = "\n".join(
        [
            source("x", "x", S),
            node("softmax", "a", "a", {"x": S}, S),
            node("softmax", "b", "b", {"a": S}, S),
            node("softmax", "c", "c", {"b": S}, S),
            node("add", "d", "d", {"a": S, "c": S}, S),
            output("y", "d", S),
        ]
    )
    found = places(after(parsed(body), context(), DdrReorderPass()))
    assert not found["a"].overlaps(found["b"])
    assert not found["a"].overlaps(found["c"])


def joined(axis: int, shapes: list[str], result: str) -> str:
    lines = [source(f"x{i}", f"x{i}", shape) for i, shape in enumerate(shapes)]
    lines += [node("softmax", f"n{i}", f"a{i}", {f"x{i}": shape}, shape) for i, shape in enumerate(shapes)]
    pieces = {f"a{i}": shape for i, shape in enumerate(shapes)}
    return "\n".join(
        [
            *lines,
            node("concat", "join", "c", pieces, result, f"axis = {axis} : i64"),
            node("softmax", "s", "d", {"c": result}, result),
            output("y", "d", result),
        ]
    )


GROUPED = (GroupPatternPass(), GroupLoadStorePass(), DdrReorderPass())


@pytest.mark.parametrize("passes", [GROUPED[-1:], GROUPED], ids=["alone", "in groups"])
def test_pieces_are_computed_in_the_joined_tensor(passes: tuple[DdrReorderPass, ...]) -> None:
    module = after(parsed(joined(0, ["2x8x4", "3x8x4"], "5x8x4")), context(), *passes)
    found = places(module)
    assert found["n0"] == DdrRange(VARIABLES, 0, 128)
    assert found["n1"] == DdrRange(VARIABLES, 128, 320)
    assert found["join"] == DdrRange(VARIABLES, 0, 320)
    join = next(op for op in operations(module) if op.node.data == "join")
    assert not computes(join)


def test_pieces_that_are_no_range_are_copied_by_the_join() -> None:
    module = after(parsed(joined(1, ["2x8x4", "2x3x4"], "2x11x4")), context(), DdrReorderPass())
    found = places(module)
    assert not found["n0"].overlaps(found["join"])
    assert computes(next(op for op in operations(module) if op.node.data == "join"))


def test_pieces_with_another_place_are_copied_there() -> None:
    """A graph input and a value that is used twice get copies, other values do not."""
    body = "\n".join(
        [
            source("x", "x", "2x4"),
            *(node("softmax", name, name, {"x": "2x4"}, "2x4") for name in ("a", "b", "c")),
            '%j = "tx8be.concat"(%a, %b, %c, %x, %a) {node = "j", onnx = {axis = 0 : i64}, operands_at = '
            'array<i64: 0, 1, 2, 3, 4>, dtypes = ["float32", "float32", "float32", "float32", "float32", '
            '"float32"]} : (tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, tensor<2x4xf16>, '
            "tensor<2x4xf16>) -> tensor<10x4xf16>",
            output("y", "j", "10x4"),
        ]
    )
    module = after(parsed(body), context(), DdrReorderPass())
    copies = [op for op in operations(module) if op.name == "tx8be.cast"]
    assert [result_range(copy) for copy in copies] == [DdrRange("y", 48, 64), DdrRange("y", 64, 80)]
    assert [result_range(op).begin for op in operations(module) if op.node.data in ("a", "b", "c")] == [
        0,
        16,
        32,
    ]


def sliced(starts: str, ends: str, axes: str, result: str, shape: str = "4x6x8") -> str:
    known = ", ".join(
        f'"{at}" = dense<{values}> : tensor<1xi64>' for at, values in enumerate((starts, ends, axes), 1)
    )
    line = node("slice", "s", "b", {"a": shape}, result, known=known)
    line = line.replace(
        'dtypes = ["float32", "float32"]', 'dtypes = ["float32", "int64", "int64", "int64", "float32"]'
    )
    return "\n".join(
        [
            source("x", "x", shape),
            node("softmax", "n", "a", {"x": shape}, shape),
            line,
            node("softmax", "t", "c", {"b": result}, result),
            output("y", "c", result),
        ]
    )


@pytest.mark.parametrize(
    ("body", "begin"),
    [
        (sliced("1", "3", "0", "2x6x8"), 96),
        (sliced("2", "5", "1", "1x3x8", "1x6x8"), 32),
        (sliced("0", "3", "1", "4x3x8"), None),
        (sliced("1", "4", "2", "4x6x3"), None),
    ],
)
def test_a_slice_of_one_range_is_that_range(body: str, begin: int | None) -> None:
    module = after(parsed(body), context(), DdrReorderPass())
    found = places(module)
    operation = next(op for op in operations(module) if op.node.data == "s")
    assert computes(operation) == (begin is None)
    if begin is not None:
        assert found["s"].begin == found["n"].begin + begin
        assert found["n"].overlaps(found["s"])
    else:
        assert not found["n"].overlaps(found["s"])


def test_a_slice_keeps_its_operand_alive() -> None:
    """Nothing may overwrite the operand of t, although n itself has no later user."""
    body = sliced("1", "3", "0", "2x6x8").splitlines()
    more = [node("softmax", f"m{i}", f"m{i}", {"a": "4x6x8"}, "4x6x8") for i in range(1)]
    more += [node("softmax", f"m{i}", f"m{i}", {f"m{i - 1}": "4x6x8"}, "4x6x8") for i in range(1, 4)]
    body = [*body[:3], *more, output("z", "m3", "4x6x8"), *body[3:]]
    found = places(after(parsed("\n".join(body)), context(), DdrReorderPass()))
    assert not any(found[f"m{i}"].overlaps(found["s"]) for i in range(4))


def test_a_graph_that_does_not_fit_ddr_is_one_line() -> None:
    made = context()
    ddr = msgspec.structs.replace(made.machine.ddr, bytes=20_000)
    made.machine = msgspec.structs.replace(made.machine, ddr=ddr)
    with pytest.raises(GraphError) as caught:
        after(parsed(chain(3)), made, DdrReorderPass())
    assert str(caught.value) == "the tensors of the graph take 32,768 bytes of DDR, machine tx81 has 20,000"


def test_a_place_is_asked_for_too_early() -> None:
    operation = next(operations(parsed(chain(1))))
    with pytest.raises(ValueError, match=r"tx8be\.input of node 'x' has no place in DDR yet"):
        result_range(operation)


SHARED: list[Graph] = [
    graph(
        [
            ("Softmax", ["x"], ["a"], {}),
            ("Softmax", ["a"], ["b"], {"axis": 0}),
            ("Concat", ["a", "b", "x", "a"], ["c"], {"axis": 0}),
            ("Softmax", ["c"], ["d"], {}),
            ("Slice", ["d", "s", "e"], ["f"], {}),
            ("Reshape", ["f", "r"], ["g"], {}),
            ("Softmax", ["g"], ["h"], {"axis": 0}),
            ("Concat", ["g", "h"], ["y"], {"axis": 0}),
        ],
        {"x": (4, 40)},
        {"s": ints(3), "e": ints(9), "r": ints(3, 80)},
        outputs=("y", "f", "h"),
    ),
    graph(
        [
            ("MaxPool", ["x"], ["a"], {"kernel_shape": (2, 2)}),
            ("MaxPool", ["x"], ["b"], {"kernel_shape": (1, 1)}),
            ("Conv", ["a", "w"], ["c"], {}),
            ("Relu", ["c"], ["d"], {}),
            ("Concat", ["a", "d", "a"], ["e"], {"axis": 1}),
            ("Concat", ["e", "d"], ["f"], {"axis": 1}),
            ("Slice", ["f", "s", "t", "i"], ["g"], {}),
            ("GlobalAveragePool", ["g"], ["y"], {}),
        ],
        {"x": (1, 64, 6, 8)},
        {"w": draw(70, 64, 1, 1), "s": ints(64), "t": ints(192), "i": ints(1)},
        outputs=("y", "e", "b"),
    ),
    graph(
        [
            ("BitwiseAnd", ["x", "x"], ["a"], {}),
            ("BitwiseXor", ["a", "x"], ["b"], {}),
            ("Concat", ["a", "x", "b"], ["c"], {"axis": 0}),
            ("BitwiseNot", ["c"], ["d"], {}),
            ("Concat", ["b", "d"], ["e"], {"axis": 0}),
            ("Concat", ["d", "e", "d"], ["y"], {"axis": 0}),
        ],
        {"x": (25, 7)},
        outputs=("y", "c", "e"),
        dtype="int64",
    ),
]
"""The last one is of integers, which cores store through their caches, at places that no line begins with."""


def test_pieces_and_slices_of_planes_need_no_code() -> None:
    """The slice is the second and the third plane of f."""
    phases = compiler.compile(SHARED[1], "fp16").text
    assert "Slice" not in phases
    assert "GlobalAveragePool" in phases


@pytest.mark.parametrize("made", SHARED, ids=["rows", "channels", "integers"])
@pytest.mark.parametrize("tiles", [1, 16])
def test_programs_that_share_memory_compute_right_and_have_no_hazard(made: Graph, tiles: int) -> None:
    program = assert_right(made, "fp16", tiles)
    from emulator.program import Program

    strict = Program(program.image, program.machine)
    strict.run(run.random_inputs(made, {}, 3), strict=True)
    assert strict.hazards == ()


def test_equal_constants_are_stored_once() -> None:
    """Two phases pack the same weights."""
    nodes = [("MatMul", ["x", "v"], ["a"], {}), ("Relu", ["a"], ["b"], {}), ("MatMul", ["b", "w"], ["y"], {})]
    weights = draw(256, 256)
    program = compiler.compile(graph(nodes, {"x": (8, 256)}, {"v": weights, "w": weights.copy()}), "fp16")
    assert len(program.constants) < 2 * weights.size * 2
    other = weights * np.float32(2)
    program = compiler.compile(graph(nodes, {"x": (8, 256)}, {"v": weights, "w": other}), "fp16")
    assert len(program.constants) >= 2 * weights.size * 2


def test_large_constants_begin_on_a_bank() -> None:
    made = graph([("MatMul", ["x", "w"], ["y"], {})], {"x": (8, 256)}, {"w": draw(256, 512)})
    program = compiler.compile(made, "fp16")
    large = [
        buffer
        for buffer in program.image.buffers
        if buffer.kind == "constant" and np.prod(buffer.shape) > 9999
    ]
    assert large
    assert all(buffer.address % BANK == 0 for buffer in large)
    assert load_machine(None).ddr.bank_bytes == BANK


def four_branches() -> Graph:
    """Four independent Softmax, LayerNormalization and their sum: three layers."""
    nodes: list[Any] = []
    for at in range(4):
        nodes += [("Softmax", [f"x{at}"], [f"s{at}"], {"axis": -1})]
        nodes += [("LayerNormalization", [f"s{at}", "scale"], [f"l{at}"], {})]
    nodes += [("Sum", [f"l{at}" for at in range(4)], ["y"], {})]
    return graph(nodes, {f"x{at}": (64, 128) for at in range(4)}, {"scale": draw(128)})


def barriers(made: Graph, ddr_bytes: int | None = None) -> int:
    """The barriers between the phases of a graph, on a chip with so much DDR."""
    machine = load_machine(None)
    if ddr_bytes is not None:
        ddr = msgspec.structs.replace(machine.ddr, bytes=ddr_bytes)
        machine = msgspec.structs.replace(machine, ddr=ddr, name="small")
    program = compiler.compile(made, "fp32", machine=machine, residency="off")
    assert program.report is not None
    return sum(phase.barrier for phase in program.report.phases)


def test_phases_of_a_layer_need_no_barrier_between_them() -> None:
    """Values of one layer do not share memory, although some are dead when others are computed."""
    assert barriers(four_branches()) == 2
    assert_right(four_branches(), "fp32")


def test_memory_is_shared_within_a_layer_where_ddr_is_small() -> None:
    """Otherwise programs that fit would be refused."""
    with pytest.raises(GraphError, match=r"take [0-9,]+ bytes of DDR") as caught:
        barriers(four_branches(), 20_000)
    needed = int(re.sub(r".*take ([0-9,]+) bytes.*", r"\1", str(caught.value)).replace(",", ""))
    assert barriers(four_branches(), needed) > 2
