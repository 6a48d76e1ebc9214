"""Groups of a convolution or pool and an epilogue, blocked and compact: works made by hand, all cuts."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.spm import SpmOverflow
from compiler.evaluation.reference import run_reference
from compiler.evaluation.tolerance import judge
from compiler.graph import Array, GraphError
from compiler.lowering import LOWERINGS
from compiler.lowering.conv.convolution import convolution
from compiler.lowering.conv.cuts import plans
from compiler.lowering.conv.layer import ConvLayer, layer_of
from compiler.lowering.conv.pooling import counts_differ, pool_layer
from compiler.lowering.generate import generate
from compiler.lowering.record import Cut, Step, Work
from compiler.operators import call_of
from compiler_harness import draw, graph, small_machine
from phase_harness import run_phase
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format

Shape = tuple[int, ...]
Nodes = list[tuple[str, list[str], list[str], dict[str, Any]]]

FORMATS = {"fp16": Format.FP16, "bf16": Format.BF16, "tf32": Format.TF32, "fp32": Format.FP32}


def channels_last(values: Array) -> Array:
    return np.moveaxis(values, 1, -1)


@dataclasses.dataclass(frozen=True)
class Case:
    """A chain of nodes: an anchor on ``x`` and its epilogue, whose other operands are inputs."""

    nodes: Nodes
    inputs: dict[str, Shape]
    constants: dict[str, Array]
    dtype: str = "fp16"
    blocked: bool = True

    def work(self) -> tuple[Work, list[DdrTensor], dict[str, Array], Array]:
        """The group, its tensors, their contents and the expected result."""
        made = graph(self.nodes, self.inputs, self.constants, [self.nodes[-1][2][0]])
        values = {name: draw(*shape, seed=7 + i) for i, (name, shape) in enumerate(self.inputs.items())}
        expected = run_reference(made, values, storage=self.dtype)[self.nodes[-1][2][0]]
        anchor, *rest = made.nodes
        known: dict[str, DdrTensor] = {}
        for name in (*self.inputs, *self.constants):
            known[name] = self._tensor(name, expected.shape, name == anchor.inputs[0])
        stored = channels_last(expected)
        output = DdrTensor("y", FORMATS[self.dtype], stored.shape, None, self.blocked)
        steps, value = [], anchor.outputs[0]
        for node in rest:
            at = tuple(i for i, name in enumerate(node.inputs) if name == value)
            others = tuple(None if i in at else known[name] for i, name in enumerate(node.inputs))
            steps.append(Step(node.name, node.op, call_of(made, node), others, at))
            value = node.outputs[0]
        work = Work(
            anchor.name,
            anchor.op,
            tuple(known[name] for name in anchor.inputs),
            output,
            call=call_of(made, anchor),
            channels_last=True,
            steps=tuple(steps),
        )
        given = {name: channels_last(v) if v.ndim > 2 else v for name, v in values.items() if name != "w"}
        given |= {name: v for name, v in values.items() if name == "w"}
        return work, list(known.values()), given, stored

    def layer(self) -> ConvLayer:
        """The group in numbers."""
        work = self.work()[0]
        if work.op == "Conv":
            return layer_of(work)
        return pool_layer(work, work.op == "AveragePool" and counts_differ(work.spec))

    def _tensor(self, name: str, result: Shape, anchor: bool) -> DdrTensor:
        fmt = FORMATS[self.dtype]
        if name in self.constants:
            value = self.constants[name]
            return DdrTensor(name, fmt, value.shape, value)
        shape = self.inputs[name]
        if anchor or shape == result:
            return DdrTensor(name, fmt, (shape[0], *shape[2:], shape[1]), None, self.blocked)
        return DdrTensor(name, fmt, shape)

    def run(
        self, cut: Cut | None = None, tiles: int = 4, machine: Machine | None = None, strict: bool = False
    ) -> Array:
        """The result, which must be within the tolerance."""
        work, tensors, given, expected = self.work()
        work = dataclasses.replace(work, cut=cut)
        lower = LOWERINGS[work.op].lower
        assert lower is not None
        found, _ = run_phase(
            lambda kernel: lower(kernel, work), given, tensors, work.output, tiles, machine, strict
        )
        verdict = judge("operator", self.dtype, found, expected, declared="float32")
        assert verdict.ok, f"{self} {cut} {tiles} tiles: {verdict.text}"
        return found


def conv(
    image: Shape,
    weights: Shape,
    *after: str,
    dtype: str = "fp16",
    blocked: bool = True,
    bias: bool = True,
    **attrs: Any,
) -> Case:
    """A convolution with constant weights; ``after`` are Relu, Sigmoid, Add (of a tensor) and Scale."""
    constants = {"w": draw(*weights, scale=0.2)}
    if bias:
        constants["b"] = draw(weights[0], seed=3)
    nodes: Nodes = [("Conv", ["x", *constants], ["v0"], attrs)]
    inputs = {"x": image}
    for index, op in enumerate(after):
        name, value = f"v{index + 1}", f"v{index}"
        if op == "Add":
            probe = graph(nodes, inputs, constants, [value])
            inputs = {**inputs, f"r{index}": probe.tensors[value].shape}
            nodes.append(("Add", [value, f"r{index}"], [name], {}))
        elif op == "Scale":
            constants = {**constants, "s": draw(1, weights[0], *(1,) * (len(image) - 2), seed=11)}
            nodes.append(("Mul", [value, "s"], [name], {}))
        else:
            nodes.append((op, [value], [name], {}))
    return Case(nodes, inputs, constants, dtype, blocked)


def pool(op: str, image: Shape, *after: str, dtype: str = "fp16", blocked: bool = True, **attrs: Any) -> Case:
    """A pool, followed by the pointwise operators ``after``."""
    nodes: Nodes = [(op, ["x"], ["v0"], attrs)]
    nodes += [(name, [f"v{i}"], [f"v{i + 1}"], {}) for i, name in enumerate(after)]
    return Case(nodes, {"x": image}, {}, dtype, blocked)


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("channels", [1, 3, 31, 33, 64, 65, 97, 129])
def test_channels(channels: int, blocked: bool) -> None:
    conv((2, channels, 5, 6), (70, channels, 3, 3), "Relu", blocked=blocked, pads=(1, 1, 1, 1)).run()
    conv((2, 20, 5, 6), (channels, 20, 1, 1), "Add", "Relu", blocked=blocked).run()


@pytest.mark.parametrize(
    ("dtype", "blocked"), [("fp16", True), ("fp16", False), ("bf16", True), ("tf32", True), ("fp32", True)]
)
@pytest.mark.parametrize(
    "after", [(), ("Relu",), ("Add", "Relu"), ("Sigmoid",), ("Scale", "Add"), ("Add", "Sigmoid")]
)
def test_steps(after: tuple[str, ...], dtype: str, blocked: bool) -> None:
    conv((1, 40, 9, 7), (96, 40, 3, 3), *after, dtype=dtype, blocked=blocked, pads=(1, 1, 1, 1)).run()


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize(
    "case",
    [
        conv((2, 128, 14, 9), (192, 128, 3, 3), "Add", "Relu", pads=(1, 1, 1, 1)),
        conv((3, 96, 9, 10), (128, 96, 1, 1), "Relu"),
        conv((1, 70, 17, 11), (75, 70, 3, 2), "Relu", strides=(2, 1), pads=(1, 0, 1, 1)),
        conv((1, 64, 15, 14), (128, 64, 1, 1), strides=(2, 2)),
        conv((1, 96, 13, 10), (96, 1, 3, 3), "Relu", group=96, pads=(1, 1, 1, 1), strides=(2, 2)),
        conv((1, 128, 7, 9), (128, 4, 3, 3), group=32, pads=(1, 1, 1, 1)),
    ],
    ids=["residual", "pointwise", "odd", "skipping", "depthwise", "grouped"],
)
def test_every_cut_gives_the_same(case: Case, blocked: bool) -> None:
    case = dataclasses.replace(case, blocked=blocked)
    expected = case.run()
    work = case.work()[0]
    ways = LOWERINGS["Conv"].cuts
    assert ways is not None
    found = list(ways(Target(5, 0x30000, Format.FP16), work))
    assert len(found) > 5
    for cut in found[:: max(1, len(found) // 4)]:
        np.testing.assert_array_equal(case.run(cut, 5), expected, str(cut))


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("after", [(), ("Add", "Relu"), ("Sigmoid",)])
def test_a_small_scratchpad(after: tuple[str, ...], dtype: str, blocked: bool) -> None:
    case = conv((1, 150, 6, 40), (80, 150, 3, 3), *after, dtype=dtype, blocked=blocked, pads=(1, 1, 1, 1))
    case.run(None, 3, small_machine(0x10000))


@pytest.mark.parametrize("group", [2, 3])
def test_groups_that_do_not_keep_to_planes(group: int) -> None:
    conv((2, 40 * group, 5, 6), (18 * group, 40, 3, 3), "Add", group=group).run()


def cuts_of(case: Case, tiles: int, **choices: str) -> list[Cut]:
    """The cuts of a case that make these choices."""
    work = case.work()[0]
    ways = LOWERINGS[work.op].cuts
    assert ways is not None
    found = ways(Target(tiles, 0x2F0000, FORMATS[case.dtype]), work)
    return [cut for cut in found if all(cut.choice(name, "") == value for name, value in choices.items())]


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize(("tiles", "what"), [(2, "weights"), (4, "weights"), (16, "weights"), (4, "image")])
def test_what_tiles_share_arrives_in_time(tiles: int, what: str, dtype: str) -> None:
    case = conv((1, 64, 14, 6), (64, 64, 3, 3), "Add", "Relu", dtype=dtype, pads=(1, 1, 1, 1))
    expected = case.run(tiles=tiles)
    for cut in cuts_of(case, tiles, share=what)[:3]:
        np.testing.assert_array_equal(case.run(cut, tiles, strict=True), expected, str(cut))


@pytest.mark.long
@pytest.mark.parametrize("what", ["both", "image"])
@pytest.mark.parametrize(
    "case",
    [
        conv((1, 128, 13, 6), (128, 128, 3, 3), "Add", "Relu", pads=(1, 1, 1, 1)),
        conv((1, 128, 7, 10), (256, 128, 1, 1), dtype="fp32"),
        conv((1, 64, 12, 6), (128, 64, 3, 3), "Sigmoid", strides=(2, 2), pads=(1, 1, 1, 1)),
        conv((2, 192, 4, 6), (128, 192, 1, 3), bias=False),
        conv((1, 256, 9, 6), (256, 256, 1, 1), "Relu", strides=(2, 2)),
    ],
    ids=["uneven rows", "positions", "half a plane each", "planes and images", "rows that are skipped"],
)
def test_rows_that_some_tiles_share_arrive_in_time(case: Case, what: str) -> None:
    """Cuts whose grid has several tiles with the same rows, and several with other rows or images."""
    expected = case.run()
    for tiles in (4, 16):
        ways = plans(case.layer(), Target(tiles, 0x2F0000, Format.FP16), 0x2F0000)
        some = [plan for plan in ways if plan.team_loads == what and 1 < plan.map_parts < tiles]
        assert some
        cut = some[0 if tiles == 16 else -1].cut()
        np.testing.assert_array_equal(case.run(cut, tiles, strict=True), expected, str(cut))


@pytest.mark.parametrize(
    "case",
    [
        conv((1, 64, 3, 37), (64, 64, 3, 3), "Add", "Relu", pads=(1, 1, 1, 1)),
        conv((1, 40, 5, 37), (72, 40, 3, 4), strides=(2, 3), pads=(1, 0, 1, 3), dtype="fp32"),
        conv((2, 64, 4, 29), (32, 64, 2, 3), "Sigmoid", dilations=(1, 3), pads=(0, 1, 0, 5)),
        conv((1, 96, 2, 21), (96, 1, 3, 3), "Relu", group=96, pads=(1, 1, 1, 1)),
        pool("MaxPool", (1, 70, 4, 27), "Relu", kernel_shape=(2, 3), strides=(1, 2), pads=(0, 1, 0, 1)),
        pool("AveragePool", (2, 128, 3, 22), kernel_shape=(3, 3)),
    ],
    ids=["residual", "strides", "dilations", "depthwise", "maximum", "mean"],
)
def test_rows_are_divided_where_there_are_few(case: Case) -> None:
    """Tiles along the columns, with padding at the first and the last; also several slices of a tile."""
    expected = case.run()
    for tiles in (5, 16):
        target = Target(tiles, 0x2F0000, FORMATS[case.dtype])
        ways = [plan for plan in plans(case.layer(), target, 0x2F0000) if plan.columns]
        assert {plan.team_loads for plan in ways} <= {"own", "weights"}
        several = dataclasses.replace(ways[0], columns=ways[0].columns // 2, team_loads="own")
        for way in (ways[0], several) if tiles == 16 else (ways[-1],):
            np.testing.assert_array_equal(case.run(way.cut(), tiles, strict=True), expected, str(way))


@pytest.mark.parametrize(("dtype", "spm"), [("fp16", 0x18000), ("fp32", 0x50000)])
def test_a_row_that_does_not_fit_is_divided(dtype: str, spm: int) -> None:
    """It divides rows rather than channels, whose sums would have to be kept in FP32."""
    case = conv((1, 64, 5, 200), (32, 64, 3, 3), "Add", dtype=dtype, pads=(1, 1, 1, 1))
    found = plans(case.layer(), Target(3, spm, FORMATS[dtype]), spm)[0]
    assert (found.channels, found.columns > 0) == (64, True)
    case.run(found.cut(), 3, small_machine(spm))


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_row_of_a_pool_that_does_not_fit_is_divided(op: str) -> None:
    case = pool(op, (1, 64, 6, 300), kernel_shape=(4, 4), strides=(1, 2))
    case.run(None, 3, small_machine(0x10000))


def test_rows_of_means_that_count_unequally_are_not_divided() -> None:
    case = pool("AveragePool", (1, 64, 6, 300), kernel_shape=(4, 4), pads=(1, 1, 1, 1))
    with pytest.raises(AssertionError, match="fits no scratchpad"):
        case.run(None, 3, small_machine(0x10000))


def test_an_image_is_shared_by_tiles_with_unequal_maps() -> None:
    case = conv((1, 40, 6, 7), (200, 40, 3, 3), "Add", pads=(1, 1, 1, 1))
    expected = case.run()
    cut = next(cut for cut in cuts_of(case, 4, share="image") if cut.size("maps") == 64)
    np.testing.assert_array_equal(case.run(cut, 4, strict=True), expected)


@pytest.mark.long
@pytest.mark.parametrize("share", ["own", "weights", "image", "both"])
def test_an_addend_that_is_complete_is_loaded_before_the_tiles_meet(share: str) -> None:
    case = conv((1, 64, 14, 6), (128, 64, 3, 3), "Add", "Relu", pads=(1, 1, 1, 1))
    work, tensors, given, expected = case.work()
    cut = next(
        cut
        for cut in cuts_of(case, 4, share=share)
        if cut.size("rows") * cut.parts("rows") >= 14 and cut.size("maps") * cut.parts("maps") >= 128
    )
    work = dataclasses.replace(work, cut=cut)

    def phase(settled: set[str]) -> tuple[Array, list[str]]:
        def lower(kernel: Kernel) -> None:
            kernel.synchronized, kernel.settled = True, frozenset(settled)
            convolution(kernel, work)

        return run_phase(lower, given, tensors, work.output, 4, None, True)

    (late, after), (early, before) = phase(set()), phase({"r0"})
    np.testing.assert_array_equal(early, late)
    assert judge("operator", "fp16", early, expected, declared="float32").ok

    def is_first(lines: list[str]) -> bool:
        meeting = next(at for at, line in enumerate(lines) if "ncc.barrier" in line)
        return any(line.split()[-1] == "r0" for line in lines[:meeting])

    assert is_first(before)
    assert not is_first(after)


def test_the_order_of_the_ways_follows_the_machine() -> None:
    """With slow links, cuts without exchanges come first."""
    layer = conv((1, 256, 14, 14), (256, 256, 3, 3), pads=(1, 1, 1, 1)).layer()
    machine = load_machine()
    rate = dataclasses.replace if dataclasses.is_dataclass(machine.noc.link_out) else msgspec.structs.replace
    slow = msgspec.structs.replace(machine.noc, link_out=rate(machine.noc.link_out, value=1e9))
    slow_machine = msgspec.structs.replace(machine, noc=slow)
    assert plans(layer, Target(16, 0x2F0000, Format.FP16), 0x2F0000)[0].team_loads != "own"
    assert plans(layer, Target(16, 0x2F0000, Format.FP16, slow_machine), 0x2F0000)[0].team_loads == "own"


@pytest.mark.parametrize("rows", [9, 10])
@pytest.mark.parametrize("kernel", [1, 3])
def test_an_image_of_which_windows_skip_rows_is_shared_whole(kernel: int, rows: int) -> None:
    case = conv((1, 80, rows, 8), (256, 80, kernel, kernel), strides=(2, 2), pads=(kernel // 2,) * 4)
    expected = case.run()
    for tiles, cut in ((16, cuts_of(case, 16, share="image")[0]), (2, cuts_of(case, 2, share="image")[-1])):
        np.testing.assert_array_equal(case.run(cut, tiles, strict=True), expected, str(cut))


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("strides", [(3, 1), (1, 3), (2, 3)])
def test_windows_of_one_position_that_skip_some(strides: tuple[int, int], blocked: bool) -> None:
    conv((2, 24, 10, 7), (32, 24, 1, 1), "Relu", blocked=blocked, strides=strides).run()


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("channels", "after"), [(3, ()), (65, ("Relu",)), (160, ("Sigmoid",))])
def test_pools(op: str, channels: int, after: tuple[str, ...], dtype: str, blocked: bool) -> None:
    padded = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    pool(op, (2, channels, 11, 13), *after, dtype=dtype, blocked=blocked, **padded).run()
    pool(op, (1, channels, 8, 9), *after, dtype=dtype, blocked=blocked, kernel_shape=(2, 3)).run()


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_every_cut_of_a_pool_gives_the_same(op: str) -> None:
    case = pool(op, (2, 130, 15, 8), "Relu", kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(2, 1))
    expected = case.run()
    found = cuts_of(case, 5)
    assert len(found) > 5
    for cut in found[:: len(found) // 5]:
        np.testing.assert_array_equal(case.run(cut, 5), expected, str(cut))


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("dtype", list(FORMATS))
@pytest.mark.parametrize(("image", "after"), [((3, 70, 5, 6), ("Sigmoid",)), ((1, 257, 9, 1), ())])
def test_global_averages(image: Shape, after: tuple[str, ...], dtype: str, blocked: bool) -> None:
    case = pool("GlobalAveragePool", image, *after, dtype=dtype, blocked=blocked)
    case.run()
    if dtype == "fp16":
        case.run(None, 3, small_machine(0x2000))


@pytest.mark.parametrize("blocked", [True, False])
@pytest.mark.parametrize("channels", [3, 65, 192])
def test_batch_normalization_with_steps(channels: int, blocked: bool) -> None:
    names = ("scale", "shift", "mean", "variance")
    constants = {name: np.abs(draw(channels, seed=i)) + 1 for i, name in enumerate(names)}
    nodes: Nodes = [
        ("BatchNormalization", ["x", *names], ["v0"], {}),
        ("Add", ["r", "v0"], ["v1"], {}),
        ("Relu", ["v1"], ["v2"], {}),
    ]
    shape = (3, channels, 5, 7)
    Case(nodes, {"x": shape, "r": shape}, constants, "bf16", blocked).run(tiles=5)


def test_a_cut_that_does_not_fit_is_refused() -> None:
    case = conv((1, 64, 40, 40), (64, 64, 3, 3))
    work = case.work()[0]
    cut = cuts_of(case, 1)[0]
    with pytest.raises(SpmOverflow):
        generate("p0", dataclasses.replace(work, cut=cut), Target(1, 0x8000, Format.FP16))


def test_more_values_than_registers_is_a_work_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller slices are tried; if none is better, the node is refused in a line."""
    work, target = conv((1, 64, 40, 40), (64, 64, 3, 3)).work()[0], Target(1, 0x40000, Format.FP16)
    budgets = []

    def lower(kernel: Kernel, work: Work) -> None:
        budgets.append(kernel.budget)
        if kernel.budget > least:
            for number in range(40):
                kernel.registers.compute(number)

    entry = dataclasses.replace(LOWERINGS["Conv"], lower=lower)
    monkeypatch.setitem(LOWERINGS, "Conv", entry)
    least = 0x20000
    generate("p0", work, target)
    assert budgets == [0x40000, 0x20000]
    least = 0
    with pytest.raises(
        GraphError, match=r"node 'n0' \(Conv\): 40 values at once; the kernel core has 26 registers"
    ):
        generate("p0", work, target)


def test_means_of_uneven_windows_are_not_divided_along_rows() -> None:
    case = pool("AveragePool", (1, 64, 3, 22), kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    even = pool("AveragePool", (1, 64, 3, 22), kernel_shape=(3, 3))
    target = Target(16, 0x2F0000, Format.FP16)
    way = next(plan for plan in plans(even.layer(), target, 0x2F0000) if plan.columns)
    with pytest.raises(ValueError, match="slices of this layer have whole rows"):
        case.run(way.cut(), 16)
