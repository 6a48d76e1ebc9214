"""Conv, pools and BatchNormalization on the emulated chip: channels around the block edges, pads, tails."""

from __future__ import annotations

import numpy as np
import pytest

import compiler
import emulator
from compiler.graph import GraphError
from compiler.tools import run
from compiler_harness import assert_right, draw, graph, one, small_machine
from time_bench import warm
from tx8isa.machine.description import load_machine

DTYPES = ("fp32", "tf32", "fp16", "bf16")
CHANNELS = (1, 3, 30, 32, 33, 64, 65, 129)
Shape = tuple[int, ...]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("image", "weights", "attrs"),
    [
        ((1, 3, 9, 11), (8, 3, 3, 3), {}),
        ((2, 32, 8, 8), (33, 32, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((1, 57, 13, 11), (131, 57, 3, 3), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
        ((1, 5, 10, 9), (4, 5, 3, 3), {"dilations": (2, 2), "pads": (2, 2, 2, 2)}),
        ((1, 65, 5, 5), (65, 65, 1, 1), {}),
        ((1, 4, 7, 8), (3, 4, 2, 5), {"pads": (1, 0, 0, 4), "strides": (1, 3)}),
    ],
)
def test_convolution(image: Shape, weights: Shape, attrs: dict[str, Shape], dtype: str) -> None:
    constants = {"w": draw(*weights, scale=0.2), "bias": draw(weights[0])}
    assert_right(one("Conv", [image], constants, **attrs), dtype)


@pytest.mark.parametrize("channels", CHANNELS)
def test_channels_of_a_convolution(channels: int) -> None:
    assert_right(one("Conv", [(2, channels, 5, 6)], {"w": draw(7, channels, 3, 3)}), "fp16")
    assert_right(one("Conv", [(2, 7, 5, 6)], {"w": draw(channels, 7, 3, 3)}), "fp16")


@pytest.mark.parametrize(
    ("group", "per_group", "maps"), [(6, 1, 6), (6, 1, 12), (3, 2, 9), (2, 40, 6), (70, 1, 70)]
)
@pytest.mark.parametrize("constant", [True, False])
def test_groups(group: int, per_group: int, maps: int, constant: bool) -> None:
    image, weights = (1, group * per_group, 6, 7), (maps, per_group, 3, 3)
    attrs = {"group": group, "pads": (1, 1, 1, 1)}
    if constant:
        assert_right(one("Conv", [image], {"w": draw(*weights)}, **attrs), "fp16")
    else:
        assert_right(one("Conv", [image, weights], **attrs), "fp16")


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_weights_and_bias_that_are_inputs(dtype: str) -> None:
    assert_right(one("Conv", [(2, 6, 7, 9), (70, 6, 3, 2), (70,)], strides=(2, 1)), dtype)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_automatic_padding(auto_pad: str) -> None:
    assert_right(
        one("Conv", [(1, 3, 8, 9)], {"w": draw(4, 3, 2, 3)}, auto_pad=auto_pad, strides=(2, 2)), "fp32"
    )


@pytest.mark.parametrize(("dilation", "mnemonic"), [(2, "ne.dwconv"), (3, "ne.dwconv"), (4, "ne.conv")])
def test_windows_of_single_channels_with_gaps(dilation: int, mnemonic: str) -> None:
    """Up to some dilation the gaps are filled with zeros; beyond it, channels are computed together."""
    attrs = {"group": 70, "dilations": (dilation, dilation), "pads": (dilation, dilation, dilation, 0)}
    weights = {"w": draw(70, 1, 3, 3), "b": draw(70)}
    program = assert_right(one("Conv", [(2, 70, 11, 12)], weights, **attrs, strides=(1, 2)), "fp16")
    assert mnemonic in program.text
    assert {"ne.dwconv": "ne.conv", "ne.conv": "ne.dwconv.fp16"}[mnemonic] not in program.text


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(
    ("maps", "group", "attrs"),
    [
        (24, 1, {"pads": (0, 3, 0, 1)}),
        (24, 1, {"strides": (1, 3)}),
        (24, 1, {"dilations": (1, 5), "pads": (0, 9, 0, 9), "strides": (4, 2)}),
        (10, 10, {"dilations": (1, 2)}),
    ],
)
def test_an_image_of_one_row(maps: int, group: int, attrs: dict[str, Shape], dtype: str) -> None:
    weights = {"w": draw(maps, 10 // group, 1, 4), "b": draw(maps)}
    made = one("Conv", [(2, 10, 1, 333)], weights, **attrs, group=group)
    assert_right(made, dtype, 5, small_machine(0x10000))


def test_one_row_may_be_longer_than_the_rows_of_an_image() -> None:
    assert_right(one("Conv", [(1, 3, 1, 9000)], {"w": draw(5, 3, 1, 3)}, pads=(0, 1, 0, 1)), "fp16")
    assert_right(one("AveragePool", [(1, 3, 1, 9000)], kernel_shape=(1, 3), pads=(0, 1, 0, 1)), "fp16")


@pytest.mark.parametrize("weights", [(5, 3, 3, 3), (5, 3, 1, 3)])
def test_longer_rows_of_other_images_are_refused(weights: Shape) -> None:
    pads = (1, 1, 1, 1) if weights[2] == 3 else (1, 1, 0, 1)
    with pytest.raises(GraphError, match=r"rows of at most 4096 positions; found 900[02] to 9000"):
        compiler.compile(one("Conv", [(1, 3, 1, 9000)], {"w": draw(*weights)}, pads=pads), dtype="fp16")


def test_one_dimension() -> None:
    assert_right(
        one("Conv", [(2, 6, 31)], {"w": draw(9, 6, 3), "b": draw(9)}, strides=(2,), pads=(1, 2)), "fp16"
    )


@pytest.mark.parametrize("tiles", [1, 5, 16])
def test_slices_with_halos(tiles: int) -> None:
    made = one(
        "Conv", [(1, 40, 37, 21)], {"w": draw(70, 40, 5, 3, scale=0.1), "b": draw(70)}, pads=(2, 1, 2, 1)
    )
    assert_right(made, "fp16", tiles, small_machine(0x10000))


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("constant", [True, False])
def test_rows_of_more_channels_than_fit_are_accumulated(constant: bool, dtype: str) -> None:
    image, weights = (1, 150, 6, 40), (20, 150, 3, 3)
    if constant:
        made = one("Conv", [image], {"w": draw(*weights), "b": draw(20)}, pads=(1, 1, 1, 1))
    else:
        made = one("Conv", [image, weights, (20,)], pads=(1, 1, 1, 1))
    assert "psum=" in assert_right(made, dtype, 3, small_machine(0x10000)).text


def test_grouped_channels_that_are_accumulated() -> None:
    made = one("Conv", [(2, 300, 4, 30)], {"w": draw(12, 100, 3, 3)}, group=3)
    assert "psum=" in assert_right(made, "fp16", 3, small_machine()).text


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", CHANNELS)
def test_batch_normalization(channels: int, dtype: str) -> None:
    constants = {name: draw(channels, seed=i) for i, name in enumerate(("scale", "shift", "mean"))}
    constants["variance"] = np.abs(draw(channels, seed=9)) + np.float32(0.1)
    assert_right(one("BatchNormalization", [(2, channels, 5, 3)], constants, epsilon=1e-6), dtype)


@pytest.mark.parametrize("constant", [True, False])
def test_batch_normalization_of_more_channels_than_fit_at_a_time(constant: bool) -> None:
    parameters = {name: np.abs(draw(3001, seed=i)) + 1 for i, name in enumerate(("b", "c", "d", "e"))}
    node = ("BatchNormalization", ["a", *parameters], ["y"], {})
    shapes: dict[str, Shape] = {"a": (3, 3001, 2)}
    if constant:
        assert_right(graph([node], shapes, parameters), "fp16", 2, small_machine())
    else:
        made = graph([node], shapes | dict.fromkeys(parameters, (3001,)))
        assert_right(made, "fp16", 16, small_machine(), {"a": draw(3, 3001, 2), **parameters})


def test_batch_normalization_uses_the_forms_of_the_overview() -> None:
    """On a warm machine, because the first use of a looped form costs more than it saves on few channels."""
    machine = warm(load_machine(None))

    def text(channels: int) -> str:
        constants = {name: draw(channels) ** 2 + 1 for name in ("scale", "shift", "mean", "variance")}
        made = one("BatchNormalization", [(1, channels, 4, 2)], constants)
        return assert_right(made, "fp16", machine=machine).text

    wide, narrow = text(129), text(30)
    for form in ("ct.sub.vuv_loop", "ct.mul.vuv_loop", "ct.add.vuv_loop", "ct.sub.vuv.", "ct.rsqrt.v.fp32"):
        assert form in wide
    assert "vuv_loop" not in narrow
    assert "ct.sub.vuv.fp32" in narrow
    assert "unit=32" in narrow


@pytest.mark.parametrize("shape", [(3, 37), (2, 5, 7), (2, 3, 2, 3, 4)])
def test_batch_normalization_of_other_ranks(shape: Shape) -> None:
    parameters = [(shape[1],)] * 4
    made = one("BatchNormalization", [shape, *parameters], epsilon=0.5)
    inputs = {name: np.abs(draw(*s)) for name, s in zip("abcde", [shape, *parameters], strict=True)}
    assert_right(made, "fp32", inputs=inputs)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("channels", (1, 32, 65))
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools_with_padding(op: str, channels: int, dtype: str) -> None:
    attrs = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    assert_right(one(op, [(2, channels, 11, 13)], **attrs), dtype)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": (2, 2), "strides": (2, 2)},
        {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1},
        {"kernel_shape": (3, 3), "strides": (2, 2), "ceil_mode": 1, "pads": (1, 1, 1, 1)},
        {"kernel_shape": (3, 3), "auto_pad": "SAME_UPPER", "strides": (2, 2)},
        {"kernel_shape": (10, 12)},
    ],
)
def test_window_geometry(op: str, attrs: dict[str, object]) -> None:
    assert_right(one(op, [(1, 5, 10, 12)], **attrs), "fp16")


def test_averages_that_count_the_padding() -> None:
    attrs = {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2), "count_include_pad": 1}
    assert_right(one("AveragePool", [(1, 5, 9, 11)], **attrs), "fp32")
    assert_right(one("AveragePool", [(1, 5, 10, 10)], **attrs, ceil_mode=1), "fp32")


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools_of_one_row(op: str) -> None:
    attrs = {"kernel_shape": (1, 5), "strides": (1, 3), "pads": (0, 2, 0, 4)}
    assert_right(one(op, [(2, 70, 1, 200)], **attrs), "fp16", 5, small_machine(0x10000))


def test_pools_of_one_dimension() -> None:
    assert_right(one("MaxPool", [(2, 5, 30)], kernel_shape=(3,), strides=(2,)), "fp16")
    assert_right(one("AveragePool", [(2, 5, 30)], kernel_shape=(3,), pads=(1, 1)), "fp16")


def test_pools_of_rows_that_fill_the_scratchpad() -> None:
    assert_right(one("MaxPool", [(1, 200, 9, 20)], kernel_shape=(3, 3)), "fp16", 3, small_machine())


@pytest.mark.parametrize("channels", [3, 64, 70])
def test_global_average_pool(channels: int) -> None:
    assert_right(one("GlobalAveragePool", [(2, channels, 7, 5)]), "fp16")


def test_a_residual_block_stays_in_one_order() -> None:
    nodes = [
        ("Conv", ["x", "w1"], ["c1"], {"pads": (1, 1, 1, 1)}),
        ("Relu", ["c1"], ["r1"], {}),
        ("Conv", ["r1", "w2"], ["c2"], {"pads": (1, 1, 1, 1)}),
        ("Add", ["c2", "r1"], ["s"], {}),
        ("Mul", ["s", "gain"], ["y"], {}),
    ]
    constants = {"w1": draw(12, 5, 3, 3), "w2": draw(12, 12, 3, 3), "gain": draw(12, 1, 1)}
    made = graph(nodes, {"x": (2, 5, 9, 8)}, constants)
    assert_right(made, "fp16")


@pytest.mark.parametrize("pools", [0, 1])
def test_the_first_copy_of_a_tile_is_made_early(pools: int) -> None:
    """It is made before the first phase, or after it if neither that phase nor the next one sends
    anything."""
    nodes = [
        *[("MaxPool", ["x"], ["p"], {"kernel_shape": (2, 2)})][:pools],
        ("Conv", ["p" if pools else "x", "w"], ["y"], {"pads": (1, 1, 1, 1)}),
    ]
    made = graph(nodes, {"x": (1, 256, 15, 15)}, {"w": draw(256, 256, 3, 3, scale=0.02)})
    program = compiler.compile(made, "fp16", search="off", patterns="none")
    start, first, *phases = program.text.split(".node ")
    assert ("dte.unicast" in start) is (pools == 0)
    assert (phases[0].startswith('""') and "dte.unicast" in phases[0]) is (pools == 1)
    assert "dte." not in first and any("dte.broadcast" in phase for phase in phases)


@pytest.mark.parametrize(("maps", "sends"), [(256, True), (3, False)])
def test_a_program_whose_later_phases_send_makes_a_first_copy(maps: int, sends: bool) -> None:
    """It takes long, so it is made before it is needed."""
    nodes = [
        ("MaxPool", ["x"], ["p"], {"kernel_shape": (2, 2)}),
        ("Conv", ["p", "w"], ["y"], {"pads": (1, 1, 1, 1)}),
    ]
    made = graph(nodes, {"x": (1, 256, 15, 15)}, {"w": draw(maps, 256, 3, 3, scale=0.02)})
    program = compiler.compile(made, "fp16", search="off", patterns="none")
    before, sent, _ = program.text.partition("dte.broadcast")
    assert bool(sent) is sends and ("dte.unicast" in before) is sends
    loaded = emulator.Program(program.image, program.machine)
    inputs = run.random_inputs(made, {}, 3)
    assert loaded.run(inputs, strict=True)["y"].shape == (1, maps, 14, 14)
    assert not loaded.hazards
    assert all(verdict.ok for verdict in run.check(program, inputs).verdicts.values())
