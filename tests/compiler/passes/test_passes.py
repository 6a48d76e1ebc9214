"""The passes: the module after each of them, and graphs that are refused before code is made."""

from __future__ import annotations

import re

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, DenseArrayBase, ModuleOp, StringAttr, f16, i64
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

import compiler
from compiler.dialect.ops import NODE_OPERATIONS, CastOp, GroupOp, InputOp, TensorOperation, tx8be
from compiler.dialect.orders import Order
from compiler.dialect.types import format_of, order_of, tensor_type
from compiler.driver import compile_graph
from compiler.evaluation.infer import build_graph
from compiler.graph import Description, Graph, GraphError, Node, Tensor
from compiler.lowering import LOWERINGS
from compiler.operators import OPERATORS
from compiler.passes.base import operations
from compiler.passes.compilation import pass_names
from compiler_harness import assert_right, draw, graph, ints, one, small_machine
from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format

CHAIN = [
    ("Conv", ["x", "w"], ["c"], {"pads": (1, 1, 1, 1)}),
    ("Relu", ["c"], ["r"], {}),
    ("MaxPool", ["r"], ["p"], {"kernel_shape": (2, 2)}),
    ("Flatten", ["p"], ["y"], {}),
]


def chain() -> Graph:
    return graph(CHAIN, {"x": (2, 3, 6, 6)}, {"w": draw(4, 3, 3, 3)})


def modules(made: Graph, dtype: str = "fp16") -> dict[str, list[tuple[str, str]]]:
    """The name and the result type of every operation after each pass."""
    seen: dict[str, list[tuple[str, str]]] = {}

    def look(name: str, module: ModuleOp) -> None:
        seen[name] = [(op.name, str(op.results[0].type) if op.results else "") for op in operations(module)]

    compile_graph(made, dtype, after_pass=look)
    return seen


def names(rows: list[tuple[str, str]]) -> list[str]:
    return [name.removeprefix("tx8be.") for name, _ in rows]


def test_every_operator_has_a_lowering_and_an_operation() -> None:
    expanded = {name for name, record in OPERATORS.items() if record.expansion is not None}
    assert set(OPERATORS) <= set(LOWERINGS) | expanded
    assert set(NODE_OPERATIONS) == set(OPERATORS)


def test_passes_run_in_order() -> None:
    layouts = ["layout_init", "layout_transmit", "layout_align", "align_opt", "cse", "move_const"]
    layouts += ["const_norm", "cast_fusion"]
    groups = ["group_pattern", "group_opt", "group_mapping", "group_cost", "group_stack", "group_load_store"]
    places = ["group_order", "state_update", "ddr_reorder", "barrier_opt", "codegen"]
    assert pass_names() == [*("import", "rewrite", "sizes", "cast"), *layouts, *groups, *places]
    assert list(modules(chain())) == pass_names()


@pytest.mark.parametrize("dtype", ["fp16", "tf32"])
def test_what_is_printed_can_be_read_again(dtype: str) -> None:
    texts: list[str] = []
    compile_graph(chain(), dtype, after_pass=lambda name, module: texts.append(str(module)))
    for text in texts:
        context = Context()
        context.load_dialect(Builtin)
        context.load_dialect(tx8be())
        module = Parser(context, text).parse_module()
        module.verify()
        assert str(module) == text


def test_casts_stand_at_the_borders_only() -> None:
    rows = modules(chain())["cast"]
    assert names(rows) == [
        "input",
        "cast",
        "load_const",
        "conv",
        "relu",
        "max_pool",
        "flatten",
        "cast",
        "output",
    ]
    assert rows[1][1] == "tensor<2x3x6x6xf16>"
    assert rows[-2][1] == "tensor<2x100xf32>"


def test_no_cast_when_the_formats_agree() -> None:
    assert "cast" not in names(modules(chain(), "fp32")["cast"])


def test_tf32_is_an_element_type_of_its_own() -> None:
    assert modules(chain(), "tf32")["cast"][1][1] == "tensor<2x3x6x6x!tx8be.tf32>"


def test_image_operators_stay_in_one_order() -> None:
    rows = modules(chain())["const_norm"]
    assert names(rows) == [
        *("load_const", "input", "channel_norm", "conv", "relu", "max_pool"),
        *("channel_norm", "flatten", "cast", "output"),
    ]
    laid = {kind.rpartition(", ")[2] for name, kind in rows if name in ("tx8be.conv", "tx8be.relu")}
    assert len(laid) == 1
    assert laid <= {'"cx">', '"channels_last">'}


def test_the_order_of_a_value_changes_once_for_all_users() -> None:
    nodes = [
        ("MaxPool", ["x"], ["a"], {"kernel_shape": (2, 2)}),
        ("AveragePool", ["x"], ["b"], {"kernel_shape": (2, 2)}),
        ("Add", ["a", "b"], ["y"], {}),
    ]
    assert names(modules(graph(nodes, {"x": (1, 5, 6, 7)}), "fp32")["align_opt"]).count("channel_norm") == 2


def test_a_change_of_order_that_moves_nothing_costs_nothing() -> None:
    program = assert_right(one("GlobalAveragePool", [(1, 64, 7, 5)]), "fp32")
    assert program.text.count(".node") == 2


def test_constants_follow_the_order_of_their_user() -> None:
    nodes = [("MaxPool", ["x"], ["p"], {"kernel_shape": (2, 2)}), ("Mul", ["p", "k"], ["y"], {})]
    program = assert_right(graph(nodes, {"x": (1, 5, 6, 7)}, {"k": draw(5, 1, 6)}), "fp32")
    assert ".const c." in program.text


@pytest.mark.parametrize("kernel", [1, 2])
def test_an_operand_of_lower_rank_brings_the_order_of_the_specification(kernel: int) -> None:
    nodes = [("MaxPool", ["x"], ["p"], {"kernel_shape": (kernel, kernel)}), ("Mul", ["p", "k"], ["y"], {})]
    assert_right(graph(nodes, {"x": (1, 5, 6, 7), "k": (8 - kernel,)}), "fp32")


def test_addresses_are_attributes() -> None:
    last: list[TensorOperation] = []

    def look(name: str, module: ModuleOp) -> None:
        last[:] = list(operations(module))

    compile_graph(chain(), "fp16", 4, after_pass=look)
    conv = next(op for op in last if isinstance(op, GroupOp) and op.node.data == "n0")
    assert conv.members[0].name == "tx8be.conv"
    text = str(conv.dev_info)
    assert re.search(r'spm = \[\{name = "p\d\.\w+", address = \d+ : i64, size = \d+ : i64\}', text)


def test_names_that_assembly_cannot_spell() -> None:
    inputs = (Tensor("gpu_0/x", "float32", (3, 5)), Tensor("t0", "float32", (2,)))
    nodes = (
        Node("Relu", "a", ("gpu_0/x",), ("a b",), {}),
        Node("Exp", "b", ("t0",), ("v.1",), {}),
        Node("Tanh", "c", ("v.1",), ("unused",), {}),
    )
    made = build_graph(Description("d", "d", 20, inputs, ("a b", "v.1"), {}, nodes))
    program = assert_right(made, "fp16")
    assert {buffer.name for buffer in program.image.buffers if buffer.kind == "output"} == {"a b", "v.1"}


def test_outputs_that_need_a_copy() -> None:
    """The same value twice, another shape of it, a constant."""
    nodes = [("Exp", ["x"], ["e"], {}), ("Reshape", ["e", "s"], ["f"], {}), ("Identity", ["x"], ["i"], {})]
    constants = {"s": ints(6), "k": draw(4)}
    assert_right(graph(nodes, {"x": (2, 3)}, constants, outputs=("e", "f", "i", "k")), "fp16")


def test_zeros_take_no_room_in_the_image() -> None:
    from asm.image import write_image

    program = compiler.compile(one("Relu", [(500, 500)], None), "fp16")
    assert len(write_image(program.image)) < 20_000


def value(fmt: Format = Format.FP16) -> TensorOperation:
    return InputOp.create(result_types=[tensor_type(fmt, (2, 3))], attributes={"node": StringAttr("x")})


def test_types_know_format_and_order() -> None:
    kind = tensor_type(Format.TF32, (1, 2, 3), Order.CHANNELS_LAST)
    assert format_of(kind) is Format.TF32
    assert order_of(kind) is Order.CHANNELS_LAST
    with pytest.raises(
        ValueError,
        match="is not a tensor of fp16, bf16, fp32, tf32, int8, uint8, int16, uint16, int32, uint32, int64",
    ):
        format_of(f16)


def test_an_operation_must_say_which_operands_it_has() -> None:
    source = value()
    attributes = {"node": StringAttr("n"), "operands_at": DenseArrayBase.from_list(i64, [0, 1])}
    made = NODE_OPERATIONS["Relu"].create(
        operands=source.results, result_types=[source.results[0].type], attributes=attributes
    )
    with pytest.raises(VerifyException, match="1 operands, operands_at names 2"):
        made.verify()


def test_an_operation_cannot_have_more_operands_than_the_operator() -> None:
    source = value()
    made = NODE_OPERATIONS["Relu"].create(
        operands=[source.results[0]] * 2,
        result_types=[source.results[0].type],
        attributes={"node": StringAttr("n")},
    )
    with pytest.raises(VerifyException, match="2 operands, Relu has 1"):
        made.verify()


def test_a_cast_cannot_make_other_integers() -> None:
    from xdsl.dialects.builtin import IntegerType, TensorType

    source = value()
    made = CastOp.create(
        operands=source.results,
        result_types=[TensorType(IntegerType(4), [2, 3])],
        attributes={"node": StringAttr("n")},
    )
    with pytest.raises(VerifyException, match="is not a tensor of fp16"):
        made.verify()


REFUSED = [
    (
        one("MaxPool", [(1, 1, 2, 4200)], kernel_shape=(2, 1)),
        "unsupported operator MaxPool (node 'n0'): rows of at most 4096 positions; found 4200 to 4200",
    ),
    (
        one("LayerNormalization", [(3, 4), (3, 1)]),
        "unsupported operator LayerNormalization (node 'n0'): Scale and B that vary along the normalized "
        "axes alone; found 'b' [3, 1]",
    ),
]


@pytest.mark.parametrize(("made", "message"), REFUSED)
def test_what_cannot_be_lowered_is_one_line(made: Graph, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        compiler.compile(made, "fp32")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("dtype", "tiles", "message"),
    [
        (
            "int8",
            16,
            "--dtype int8 needs samples of the inputs: --calibrate FILE.npz; formats that need none are "
            "fp32, tf32, fp16, bf16",
        ),
        (
            "fp61",
            16,
            "unknown dtype 'fp61'; allowed are fp32, tf32, fp16, bf16, auto, and int8 with samples of the "
            "inputs; did you mean 'fp16'?",
        ),
        ("fp16", 0, "0 tiles: expected 1 to 16 on machine tx81"),
        ("fp16", 17, "17 tiles: expected 1 to 16 on machine tx81"),
    ],
)
def test_options_out_of_range(dtype: str, tiles: int, message: str) -> None:
    with pytest.raises(GraphError) as caught:
        compiler.compile(one("Relu", [(3,)]), dtype, tiles)
    assert str(caught.value) == message


def test_wrong_assembly_is_said_to_be_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    from compiler.passes import emit

    monkeypatch.setattr(emit.program, "epilogue", lambda: ["        ncc.wiat"])
    with pytest.raises(
        GraphError, match=r"internal error: .* prog\.s:\d+:9: error: unknown instruction 'ncc.wiat'"
    ):
        compiler.compile(one("Relu", [(3,)]))


def test_tiles_that_take_no_part_end_at_once() -> None:
    text = compiler.compile(one("Relu", [(3,)]), "fp32", 2).text
    assert re.search(r"li +t0, 2\n +bltu +s11, t0, 1f\n +li +a0, 0\n +li +a7, 93\n +ecall\n1:", text)


def test_a_row_that_no_scratchpad_holds_names_the_node() -> None:
    made = one("Conv", [(1, 16, 255, 8)], {"w": draw(4, 16, 255, 8)})
    with pytest.raises(
        Tx8Error, match=r"node 'n0' \(Conv\): one row of output and 255 of input do not fit the SPM"
    ):
        compiler.compile(made, "fp16", 16, small_machine())


@pytest.mark.parametrize(
    ("dtype", "expected"), [("float32", "fp32"), ("float16", "fp16"), ("bfloat16", "bf16")]
)
def test_the_default_format_is_that_of_the_graph(dtype: str, expected: str) -> None:
    made = graph([("Relu", ["x"], ["y"], {})], {"x": (3,)}, dtype=dtype)
    assert compiler.compile(made).dtype == expected


def test_compiling_twice_gives_the_same_bytes() -> None:
    first, second = compiler.compile(chain(), "fp16"), compiler.compile(chain(), "fp16")
    assert first.text == second.text
    assert first.constants == second.constants
    assert np.array_equal(first.image.segments[0].data, second.image.segments[0].data)
