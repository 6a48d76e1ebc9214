"""The layout passes: small modules as text, and the results of each pass."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.utils.exceptions import VerifyException

from compiler.dialect.channel_norm import ChannelNormOp
from compiler.dialect.ops import InputOp
from compiler.dialect.orders import Order
from compiler.dialect.types import order_of, readable_as, stored_bytes, stored_shape, tensor_type
from compiler.driver import compile_graph
from compiler.evaluation.reference import run_reference
from compiler.graph import Array, Shape
from compiler.passes.base import Pass, operations
from compiler.passes.layouts.align_opt import AlignOptPass
from compiler.passes.layouts.const_norm import ConstNormPass
from compiler.passes.layouts.layout_align import LayoutAlignPass
from compiler.passes.layouts.layout_init import LayoutInitPass
from compiler.passes.layouts.layout_transmit import LayoutTransmitPass
from compiler.passes.layouts.move_const import MoveConstPass
from compiler.tools.run import execute
from compiler_harness import NodeSpec, assert_right, draw, graph, ints
from ir_text import after, constant, context, node, output, parsed, source
from tx8isa.numbers.formats import Format
from tx8isa.numbers.layouts import Layout
from tx8isa.numbers.packing import pack, storage_dtype

S = "1x64x8x8"
WINDOW = "kernel_shape = [1 : i64, 1 : i64]"
INIT = (LayoutInitPass(),)
TRANSMIT = (*INIT, LayoutTransmitPass())
ALIGN = (*TRANSMIT, LayoutAlignPass())
OPTIMIZED = (*ALIGN, AlignOptPass())


def pool(name: str, value: str, operand: str, shape: str = S) -> str:
    """An operator that needs planes of channels."""
    return node("max_pool", name, value, {operand: shape}, shape, WINDOW)


def orders(module: ModuleOp) -> list[str]:
    """One line per operation: name, node, order and format of the result."""
    lines = []
    for op in operations(module):
        kind = str(op.results[0].type) if op.results else ""
        order = order_of(op.results[0].type).value if op.results else ""
        element = "" if "f32" not in kind else " f32"
        lines.append(f"{op.name.removeprefix('tx8be.')} {op.node.data} {order}{element}".strip())
    return lines


def left(body: str, passes: tuple[Pass, ...], constants: dict[str, Array] | None = None) -> list[str]:
    return orders(after(parsed(body), context(constants), *passes))


BEHIND = "\n".join(
    [
        source("x", "x", S),
        pool("p", "a", "x"),
        node("relu", "r", "b", {"a": S}, S),
        node("softmax", "s", "c", {"b": S}, S, "axis = -1 : i64"),
        output("y", "c", S),
    ]
)


def test_init_gives_each_result_what_its_operator_prefers() -> None:
    module = after(parsed(BEHIND), context(), *INIT)
    assert orders(module) == ["input x plain", "max_pool p cx", "relu r plain", "softmax s plain", "output y"]


def test_the_order_goes_forwards_to_operations_that_follow() -> None:
    assert left(BEHIND, TRANSMIT)[2:4] == ["relu r cx", "softmax s plain"]


def test_the_order_goes_backwards_to_what_feeds_the_engines() -> None:
    body = [
        source("x", "x", S),
        node("relu", "r", "a", {"x": S}, S),
        pool("p", "b", "a"),
        output("y", "b", S),
    ]
    assert left("\n".join(body), TRANSMIT) == ["input x plain", "relu r cx", "max_pool p cx", "output y"]


def test_no_order_goes_backwards_where_another_user_wants_the_plain_one() -> None:
    body = "\n".join(
        [
            source("x", "x", S),
            node("relu", "r", "a", {"x": S}, S),
            pool("p", "b", "a"),
            node("softmax", "s", "c", {"a": S}, S, "axis = -1 : i64"),
            output("y", "b", S),
            output("z", "c", S),
        ]
    )
    assert left(body, TRANSMIT)[1] == "relu r plain"


def test_an_operation_takes_the_order_with_the_fewest_changes() -> None:
    """One operand is in planes, while two operands and all users are plain, so planes would need three
    changes."""
    both = {"a": S, "u": S, "v": S}
    body = "\n".join(
        [
            source("x", "x", S),
            source("u", "u", S),
            source("v", "v", S),
            pool("p", "a", "x"),
            node("sum", "s", "b", both, S),
            output("y", "b", S),
        ]
    )
    assert left(body, TRANSMIT)[4] == "sum s plain"


@pytest.mark.parametrize("other", ["1x64x8", "8x8"])
def test_an_operand_of_lower_rank_stops_the_order(other: str) -> None:
    body = "\n".join(
        [
            source("x", "x", S),
            source("k", "k", other),
            pool("p", "a", "x"),
            node("mul", "m", "b", {"a": S, "k": other}, S),
            output("y", "b", S),
        ]
    )
    assert left(body, TRANSMIT)[3] == "mul m plain"


def test_vectors_of_channels_are_compact() -> None:
    body = "\n".join(
        [
            source("x", "x", S),
            constant("k", "k", "64x1x1"),
            pool("p", "a", "x"),
            node("mul", "m", "b", {"a": S, "k": "64x1x1"}, S),
            output("y", "b", S),
        ]
    )
    found = left(body, (*OPTIMIZED, MoveConstPass(), ConstNormPass()), {"k": draw(64, 1, 1)})
    assert found[0] == "load_const k.rank4 channels_last"
    assert "mul m cx" in found


def test_each_value_is_brought_to_an_order_once() -> None:
    body = "\n".join(
        [
            source("x", "x", S),
            pool("p", "a", "x"),
            pool("q", "b", "x"),
            node("softmax", "s", "c", {"a": S}, S, "axis = -1 : i64"),
            node("softmax", "t", "d", {"a": S}, S, "axis = -1 : i64"),
            output("y", "b", S),
            output("z", "c", S),
            output("w", "d", S),
        ]
    )
    found = left(body, ALIGN)
    assert [line for line in found if line.startswith("channel_norm")] == [
        "channel_norm x cx",
        "channel_norm p plain",
        "channel_norm q plain",
    ]


def cast(name: str, value: str, operand: str, shape: str, to: str) -> str:
    before = "f32" if to == "f16" else "f16"
    types = f"(tensor<{shape}x{before}>) -> tensor<{shape}x{to}>"
    return f'%{value} = "tx8be.cast"(%{operand}) {{node = "{name}"}} : {types}'


def test_a_cast_is_done_by_the_change_beside_it() -> None:
    body = "\n".join(
        [
            source("x", "x", S, "f32"),
            cast("x", "h", "x", S, "f16"),
            pool("p", "a", "h"),
            cast("y", "b", "a", S, "f32"),
            output("y", "b", S, "f32"),
        ]
    )
    assert left(body, OPTIMIZED) == [
        "input x plain f32",
        "channel_norm x cx",
        "max_pool p cx",
        "channel_norm y plain f32",
        "output y",
    ]


def norm(name: str, value: str, operand: str, before: str, after_: str) -> str:
    return f'%{value} = "tx8be.channel_norm"(%{operand}) {{node = "{name}"}} : ({before}) -> {after_}'


PLAIN, LAST, PLANES = (f"tensor<1x65x8x8xf16{order}>" for order in ("", ', "channels_last"', ', "cx"'))
WIDE = "tensor<1x65x8x8xf32>"


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((PLAIN, PLANES, PLAIN), []),
        ((PLAIN, LAST, PLANES), ["channel_norm n1 cx"]),
        ((WIDE, PLANES, WIDE), ["channel_norm n0 cx", "channel_norm n1 plain f32"]),
        ((PLAIN, PLANES, WIDE), ["cast n1 plain f32"]),
    ],
)
def test_one_change_behind_another(kinds: tuple[str, str, str], expected: list[str]) -> None:
    """The third one rounds between two changes, which must remain."""
    first, last = kinds[0], kinds[-1]
    body = "\n".join(
        [
            f'%a = "tx8be.input"() {{node = "x"}} : () -> {first}',
            norm("n0", "b", "a", first, kinds[1]),
            norm("n1", "c", "b", kinds[1], last),
            f'"tx8be.output"(%c) {{node = "y"}} : ({last}) -> ()',
        ]
    )
    assert left(body, (AlignOptPass(),))[1:-1] == expected


def test_a_change_that_others_need_stays() -> None:
    body = "\n".join(
        [
            f'%a = "tx8be.input"() {{node = "x"}} : () -> {PLAIN}',
            norm("n0", "b", "a", PLAIN, PLANES),
            norm("n1", "c", "b", PLANES, LAST),
            f'"tx8be.output"(%b) {{node = "y"}} : ({PLANES}) -> ()',
            f'"tx8be.output"(%c) {{node = "z"}} : ({LAST}) -> ()',
        ]
    )
    assert left(body, (AlignOptPass(),))[1:3] == ["channel_norm n0 cx", "channel_norm n1 channels_last"]


def test_constants_are_merged_and_large_ones_come_first() -> None:
    """With four tiles, constants of 16 KiB and more come first. The two equal ones become one operation."""
    shapes = {"a": "64x8", "b": "64x200", "c": "64x8", "d": "64x300"}
    lines = [source("x", "x", "8x64")] + [constant(name, name, shape) for name, shape in shapes.items()]
    for name, shape in shapes.items():
        result = f"8x{shape.partition('x')[2]}"
        lines.append(node("mat_mul", f"m{name}", f"r{name}", {"x": "8x64", name: shape}, result))
    data = {name: draw(*map(int, shape.split("x"))) for name, shape in shapes.items()}
    module = after(parsed("\n".join(lines)), context(data), MoveConstPass())
    assert [line for line in orders(module) if line.startswith("load")] == [
        "load_const d plain",
        "load_const b plain",
        "load_const a plain",
    ]
    users = {op.node.data: op.operands[1].owner for op in operations(module) if op.name == "tx8be.mat_mul"}
    assert users["ma"] is users["mc"]
    assert users["ma"] is not users["mb"]


def test_constants_that_differ_in_type_or_a_bit_stay() -> None:
    shape = "4x4"
    lines = [source("x", "x", shape), constant("a", "a", shape), constant("b", "b", shape)]
    lines += [node("add", f"m{name}", f"r{name}", {"x": shape, name: shape}, shape) for name in "ab"]
    almost = np.zeros((4, 4), np.float32)
    data = {"a": almost, "b": almost * np.float32(-1)}
    assert left("\n".join(lines), (MoveConstPass(),), data)[:2] == [
        "load_const a plain",
        "load_const b plain",
    ]


def test_the_order_of_a_constant_is_changed_when_compiling() -> None:
    body = "\n".join(
        [
            source("x", "x", S),
            constant("k", "k", S),
            pool("p", "a", "x"),
            pool("q", "b", "x"),
            node("mul", "m", "c", {"a": S, "k": S}, S),
            node("add", "n", "d", {"b": S, "k": S}, S),
            output("y", "c", S),
            output("z", "d", S),
        ]
    )
    found = left(body, (*OPTIMIZED, MoveConstPass(), ConstNormPass()), {"k": draw(1, 64, 8, 8)})
    assert [line for line in found if line.startswith("load")] == ["load_const k cx"]


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_blocked_constants_and_vectors_compute_right(dtype: str) -> None:
    nodes = [
        ("MaxPool", ["x"], ["a"], {"kernel_shape": (2, 2)}),
        ("Mul", ["a", "k"], ["b"], {}),
        ("Add", ["b", "v"], ["c"], {}),
        ("Sub", ["c", "n"], ["y"], {}),
    ]
    constants = {"k": draw(2, 70, 4, 5), "v": draw(70, 1, 1), "n": draw(2, 1, 1, 5)}
    program = assert_right(graph(nodes, {"x": (2, 70, 5, 6)}, constants), dtype)
    assert ".const c." in program.text


def test_splits_of_channels_and_joins_in_planes_compute_right() -> None:
    """Parts of 64 and of other numbers of channels, several images, and a join along rows."""
    nodes = [
        ("MaxPool", ["x"], ["a"], {"kernel_shape": (2, 2)}),
        ("MaxPool", ["w"], ["b"], {"kernel_shape": (2, 2)}),
        ("Concat", ["a", "b", "a"], ["c"], {"axis": 1}),
        ("AveragePool", ["c"], ["d"], {"kernel_shape": (2, 2)}),
        ("Concat", ["d", "d"], ["e"], {"axis": 2}),
        ("Slice", ["e", "s", "t", "i"], ["y"], {}),
    ]
    shapes = {"x": (2, 40, 5, 6), "w": (2, 64, 5, 6)}
    constants = {"s": ints(3), "t": ints(90), "i": ints(1)}
    assert_right(graph(nodes, shapes, constants), "fp16")


def test_transposes_around_images_are_the_same_bytes() -> None:
    """Exporters of tools that keep channels last write such Transposes; rank 3 and 4."""
    for shape, behind, before in (
        ((2, 9, 7, 70), (0, 2, 3, 1), (0, 3, 1, 2)),
        ((1, 9, 40), (0, 2, 1), (0, 2, 1)),
    ):
        nodes = [
            ("Transpose", ["x"], ["a"], {"perm": before}),
            ("MaxPool", ["a"], ["b"], {"kernel_shape": (2,) * (len(shape) - 2)}),
            ("Transpose", ["b"], ["y"], {"perm": behind}),
        ]
        program = assert_right(graph(nodes, {"x": shape}), "fp16")
        assert "ne.gemm.int8" not in program.text
        assert program.text.count(".node") <= 5


def test_transposes_of_other_axes_stay() -> None:
    nodes = [
        ("Transpose", ["x"], ["a"], {"perm": (0, 2, 3, 1)}),
        ("MaxPool", ["a"], ["b"], {"kernel_shape": (2, 2)}),
        ("Transpose", ["b"], ["c"], {"perm": (0, 3, 1, 2)}),
        ("Softmax", ["c"], ["d"], {}),
        ("Transpose", ["d"], ["y"], {"perm": (0, 3, 1, 2)}),
    ]
    assert_right(graph(nodes, {"x": (2, 9, 7, 70)}), "fp16")


WINDOWS = [
    (1, {"s": ints(64), "e": ints(130), "a": ints(1)}),
    (2, {"s": ints(3), "e": ints(100), "a": ints(1)}),
    (2, {"s": ints(1, 70, 0), "e": ints(5, 129, 2), "a": ints(2, 1, 0), "t": ints(2, 3, 1)}),
]


@pytest.mark.parametrize(("batches", "windows"), WINDOWS)
def test_slices_in_planes_compute_right(batches: int, windows: dict[str, Array]) -> None:
    nodes = [
        ("MaxPool", ["x"], ["p"], {"kernel_shape": (2, 2)}),
        ("Slice", ["p", *windows], ["q"], {}),
        ("MaxPool", ["q"], ["y"], {"kernel_shape": (2, 2)}),
    ]
    kinds: list[str] = []

    def look(name: str, module: ModuleOp) -> None:
        if name == "align_opt":
            kinds.extend(orders(module))

    made = graph(nodes, {"x": (batches, 130, 7, 6)}, windows)
    compile_graph(made, "fp16", after_pass=look)
    assert "slice n1 cx" in kinds
    assert_right(made, "fp16")


SHAPES: list[Shape] = [
    (1, 64, 3, 5),
    (2, 64, 3, 5),
    (2, 64, 4, 4),
    (1, 32, 7, 1),
    (1, 96, 2, 2),
    (1, 100, 1, 1),
    (2, 128, 1, 1),
    (1, 1, 6, 6),
    (3, 4, 1, 32),
    (1, 70, 1),
    (2, 3, 1, 1),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
def test_what_is_readable_as_another_type_has_the_same_bytes(shape: Shape, fmt: Format) -> None:
    array = np.arange(1, np.prod(shape) + 1).reshape(shape).astype(storage_dtype(fmt))
    images = {}
    for order in (Order.PLAIN, Order.CHANNELS_LAST, Order.BLOCKED):
        kind = tensor_type(fmt, shape, order)
        stored = array if order is Order.PLAIN else np.ascontiguousarray(np.moveaxis(array, 1, -1))
        layout = Layout.NCX if order is Order.BLOCKED else Layout.TENSOR
        images[kind] = pack(stored, fmt, layout)[: stored_bytes(kind)].tobytes()
        assert stored_shape(kind) == stored.shape
    for before, first in images.items():
        for behind, second in images.items():
            assert readable_as(before, behind) == first.startswith(second), (str(before), str(behind))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_what_is_readable_for_all_extents_of_an_axis_is_so_for_each(shape: Shape, axis: int) -> None:
    for orders in itertools.permutations((Order.PLAIN, Order.CHANNELS_LAST, Order.BLOCKED), 2):
        each = []
        for extent in (2, 3, 5, 64, 70):
            sized = (*shape[:axis], extent, *shape[axis + 1 :])
            before, behind = (tensor_type(Format.FP16, sized, order) for order in orders)
            each.append(readable_as(before, behind))
        for_all = readable_as(before, behind, open_axes=[axis])
        assert for_all == all(each) or (axis == 1 and not for_all), orders


REFUSED = [
    (tensor_type(Format.FP16, (1, 2, 4)), "shape"),
    (tensor_type(Format.INT8, (1, 2, 3)), "only floats are converted"),
]


@pytest.mark.parametrize(("kind", "message"), REFUSED)
def test_a_change_of_order_keeps_shape_and_kind(kind: object, message: str) -> None:
    source_op = InputOp.create(
        result_types=[tensor_type(Format.FP16, (1, 2, 3))], attributes={"node": StringAttr("x")}
    )
    made = ChannelNormOp.create(
        operands=source_op.results, result_types=[kind], attributes={"node": StringAttr("n")}
    )
    with pytest.raises(VerifyException, match=message):
        made.verify()


def test_planes_of_channels_need_channels_and_few_bits() -> None:
    for fmt, shape in ((Format.INT64, (1, 2, 3)), (Format.INT8, (4, 64)), (Format.FP16, (4, 64))):
        kinds = [tensor_type(fmt, shape, order) for order in (Order.PLAIN, Order.BLOCKED)]
        made = InputOp.create(result_types=kinds[:1], attributes={"node": StringAttr("x")})
        change = ChannelNormOp.create(
            operands=made.results, result_types=kinds[1:], attributes={"node": StringAttr("n")}
        )
        with pytest.raises(VerifyException, match="cannot be stored in planes of channels"):
            change.verify()


_NEXT: list[list[NodeSpec]] = [
    [("Cast", ["c"], ["y"], {"to": 7})],
    [("Cast", ["c"], ["i"], {"to": 7}), ("Add", ["i", "k"], ["y"], {})],
    [("Cast", ["c"], ["i"], {"to": 7}), ("Concat", ["i", "i"], ["y"], {"axis": 1})],
    [("Greater", ["c", "h"], ["g"], {}), ("Cast", ["g"], ["y"], {"to": 7})],
    [("Cast", ["c"], ["i"], {"to": 7}), ("Mod", ["i", "k"], ["y"], {})],
]


@pytest.mark.parametrize("channels", [5, 70])
@pytest.mark.parametrize("nodes", _NEXT, ids=lambda nodes: nodes[-1][0])
def test_long_integers_after_planes_have_the_order_of_the_model(nodes: list[NodeSpec], channels: int) -> None:
    """No change of order moves elements of 64 bits, so the floats before them change their order."""
    w = np.random.default_rng(3).integers(-3, 4, (channels, 4, 3, 3)).astype(np.float32)
    constants = {"w": w, "k": np.array(3), "h": np.array(0.5, np.float32)}
    used = {name: constants[name] for name in ("w", *(n for node in nodes for n in node[1] if n in "kh"))}
    made = graph([("Conv", ["x", "w"], ["c"], {"pads": (1, 1, 1, 1)}), *nodes], {"x": (2, 4, 6, 5)}, used)
    x = np.random.default_rng(4).integers(-3, 4, (2, 4, 6, 5)).astype(np.float32)
    wanted = run_reference(made, {"x": x})["y"]
    for residency in ("on", "off"):
        got = execute(compile_graph(made, "fp32", residency=residency), {"x": x})[0]["y"]
        np.testing.assert_array_equal(got, wanted)
