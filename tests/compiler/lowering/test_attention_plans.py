"""Every cut of an attention gives equal numbers, without a race; causal masks need no mask tensor."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.collective import WAYS
from compiler.graph import Array, Tensor
from compiler.lowering.attention.attention import attention
from compiler.lowering.attention.plan import attention_cuts
from compiler.lowering.generate import generate
from compiler.lowering.record import Cut, Work
from compiler.operators.record import Call
from compiler_harness import assert_right, draw, graph, small_machine
from phase_harness import run_phase
from tx8isa.numbers.formats import Format

TOLERANCE = {Format.FP16: 4e-3, Format.BF16: 3e-2, Format.TF32: 4e-3, Format.FP32: 3e-6}
SMALL = {Format.FP16: 0x38000, Format.BF16: 0x38000, Format.TF32: 0x70000, Format.FP32: 0x90000}
"""Scratchpads that do not hold all keys of ``STREAMED``."""
LOADS_MASK = re.compile(r"\bmask\b")
STREAMED = (2, 256, 640, 64)
VIEWS: dict[str, Any] = dict.fromkeys(("view_q", "view_k", "view_v", "perm"), ())
PLAIN: dict[str, Any] = {**VIEWS, "softcap": 0.0, "zero_rows": 0}
"""Attributes of an attention whose operands are matrices."""


@dataclass(frozen=True)
class Case:
    """Attention of [heads, queries or keys, channels] as a phase by itself."""

    work: Work
    inputs: dict[str, Array]
    want: Array

    def check(self, cut: Cut, tiles: int, spm: int | None = None, strict: bool = False) -> str:
        """Run it with a cut and compare; the text of the code."""

        def lower(kernel: Kernel) -> None:
            attention(kernel, replace(self.work, cut=cut))

        machine = None if spm is None else small_machine(spm)
        tensors = [tensor for tensor in self.work.inputs if tensor is not None]
        got, lines = run_phase(lower, self.inputs, tensors, self.work.output, tiles, machine, strict)
        fmt = self.work.arithmetic
        np.testing.assert_allclose(got, self.want, atol=TOLERANCE[fmt], err_msg=str(cut))
        return "\n".join(lines)


def made(sizes: tuple[int, int, int, int], fmt: Format, mask: Array | None = None) -> Case:
    """Heads, queries, keys and channels; the mask is a constant."""
    heads, m, n, d = sizes
    shapes = {"q": (heads, m, d), "k": (heads, n, d), "v": (heads, n, d)}
    inputs = {name: draw(*shape, seed=ord(name)).astype(np.float64) for name, shape in shapes.items()}
    if fmt.bits == 16:
        inputs = {name: data.astype(np.float16).astype(np.float32) for name, data in inputs.items()}
    scores = inputs["q"] @ np.swapaxes(inputs["k"], -1, -2) * d**-0.5
    scores = scores if mask is None else scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = weights / weights.sum(-1, keepdims=True) @ inputs["v"]
    tensors: list[DdrTensor | None] = [DdrTensor(name, fmt, shape) for name, shape in shapes.items()]
    tensors.append(None if mask is None else DdrTensor("mask", fmt, mask.shape, mask))
    seen = [None if t is None else Tensor(t.symbol, "float32", t.shape) for t in tensors]
    attrs = {"scale": d**-0.5, **PLAIN}
    call = Call(20, attrs, tuple(seen), (None, None, None, mask), ("y",))
    output = DdrTensor("y", Format.FP32, (heads, m, d))
    work = Work("n", "FusedAttention", tuple(tensors), output, call=call, compute=fmt)
    return Case(work, inputs, want)


def cut(queries: int, keys: int, shared: bool = False) -> Cut:
    sizes = (("queries", queries), ("keys", keys))
    return Cut(sizes=sizes, choices=(("keys", "shared"),) if shared else ())


def causal(m: int, n: int) -> Array:
    """Query i sees keys up to i + n - m."""
    return np.triu(np.full((m, n), -np.inf, np.float32), 1 + n - m)


@pytest.mark.parametrize("fmt", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(
    ("m", "n", "queries", "keys"),
    [
        (256, 256, 64, 128),
        (256, 256, 128, 64),
        (256, 512, 256, 128),
        (128, 192, 64, 64),
        (32, 96, 32, 32),
        (96, 96, 32, 96),
        (64, 64, 64, 64),
    ],
)
def test_a_causal_mask_is_not_loaded(m: int, n: int, queries: int, keys: int, fmt: Format) -> None:
    text = made((1, m, n, 32), fmt, causal(m, n)).check(cut(queries, keys), 2)
    assert not LOADS_MASK.search(text)


RAGGED = [
    (1, 1, 64, 64),
    (5, 70, 64, 64),
    (70, 70, 64, 128),
    (200, 200, 64, 128),
    (130, 201, 128, 64),
    (257, 257, 128, 64),
    (257, 300, 256, 128),
    (190, 190, 128, 32),
    (100, 333, 100, 50),
    (321, 321, 80, 96),
]
"""Queries, keys, and blocks that divide them badly, or that the diagonal does not fit."""


@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32], ids=str)
@pytest.mark.parametrize("sizes", RAGGED, ids=str)
def test_a_causal_mask_of_any_size_is_not_loaded(sizes: tuple[int, int, int, int], fmt: Format) -> None:
    m, n, queries, keys = sizes
    text = made((3, m, n, 32), fmt, causal(m, n)).check(cut(queries, keys), 6, strict=True)
    assert not LOADS_MASK.search(text)


@pytest.mark.parametrize("sizes", [(513, 513, 64, 128), (300, 420, 64, 64), (515, 515, 128, 96)], ids=str)
@pytest.mark.parametrize("spm", [None, 0x60000], ids=["resident", "streamed"])
def test_teams_under_a_causal_mask_of_any_size(sizes: tuple[int, int, int, int], spm: int | None) -> None:
    """With room for two heads, a team loads the next one while it computes; a last block may be shorter."""
    m, n, queries, keys = sizes
    case = made((2, m, n, 64), Format.BF16, causal(m, n))
    text = case.check(cut(queries, keys, True), 4, spm, strict=True)
    assert spm or "dte.broadcast" in text


@pytest.mark.parametrize("tiles", [1, 2, 3, 4, 7, 16])
def test_tiles_end_together_under_a_causal_mask(tiles: int) -> None:
    """Any number of tiles: every block of queries is computed, once (else the sanitizer sees a race)."""
    made((5, 330, 330, 32), Format.FP16, causal(330, 330)).check(cut(64, 64), tiles, strict=True)


@pytest.mark.parametrize(("sizes", "tiles"), [(STREAMED, 4), ((7, 320, 640, 64), 16)])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_more_values_than_registers(shared: bool, sizes: tuple[int, int, int, int], tiles: int) -> None:
    """FP32 in two parts, keys that do not stay, a causal mask: more values than the core has registers."""
    case = made(sizes, Format.FP32, causal(*sizes[1:3]))
    case.check(cut(64, 128, shared), tiles, 0xE0000, strict=True)


@pytest.mark.long
def test_long_causal_attention_has_code() -> None:
    """28 heads of 4096 keys and 128 channels."""
    operands = [DdrTensor(name, Format.BF16, (28, 4096, 128)) for name in "qkv"]
    mask = causal(4096, 4096)
    seen = [Tensor(t.symbol, "float32", t.shape) for t in operands] + [Tensor("mask", "float32", mask.shape)]
    attrs = {"scale": 0.1, **PLAIN}
    call = Call(20, attrs, tuple(seen), (None, None, None, mask), ("y",))
    operands.append(DdrTensor("mask", Format.BF16, mask.shape, mask))
    output = DdrTensor("y", Format.BF16, (28, 4096, 128))
    work = Work("n", "FusedAttention", tuple(operands), output, call=call, compute=Format.BF16)
    target = Target(16, 0x2F0000, Format.BF16)
    generate("p0", work, target)
    for tried in attention_cuts(target, work):
        with suppress(SpmOverflow):
            generate("p0", replace(work, cut=tried), target)


def test_blocks_that_nobody_sees_are_skipped() -> None:
    """The mask gives them no weight, so their contents must not matter."""
    case = made((1, 256, 256, 32), Format.FP16, causal(256, 256))
    hidden = {**case.inputs, "v": case.inputs["v"].copy()}
    hidden["v"][:, 192:] = np.nan
    lower = replace(case.work, cut=cut(64, 64))
    tensors = [tensor for tensor in case.work.inputs if tensor is not None]
    got, _ = run_phase(lambda kernel: attention(kernel, lower), hidden, tensors, case.work.output, 4)
    np.testing.assert_allclose(got[:, :192], case.want[:, :192], atol=4e-3)
    assert np.all(np.isnan(got[:, 192:]))


@pytest.mark.parametrize("other", ["lower", "banded", "shifted"])
def test_masks_that_only_look_causal(other: str) -> None:
    mask = causal(64, 64)
    if other == "lower":
        mask[40, 3] = -1.0
    elif other == "banded":
        mask[40, :8] = -np.inf
    else:
        mask = np.triu(np.full((64, 64), -np.inf, np.float32), 2)
    text = made((1, 64, 64, 32), Format.FP16, mask).check(cut(64, 64), 2)
    assert LOADS_MASK.search(text)


@pytest.mark.parametrize("fmt", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_keys_that_do_not_all_fit(shared: bool, fmt: Format) -> None:
    text = made(STREAMED, fmt).check(cut(64, 64, shared), 4, SMALL[fmt])
    assert ("dte.broadcast" in text) == shared


@pytest.mark.parametrize(("queries", "keys"), [(64, 64), (128, 256)])
@pytest.mark.parametrize("masked", [False, True])
def test_tiles_that_load_all_keys_together(queries: int, keys: int, masked: bool) -> None:
    mask = causal(256, 256) if masked else None
    text = made((2, 256, 256, 32), Format.BF16, mask).check(cut(queries, keys, True), 4)
    assert "dte.broadcast" in text


@pytest.mark.parametrize("fmt", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("n", [65, 129, 130])
@pytest.mark.parametrize("m", [1, 5, 100])
def test_a_short_last_block_of_keys_changes_no_other_score(m: int, n: int, fmt: Format) -> None:
    """Its scores end within a line of the scratchpad."""
    made((2, m, n, 32), fmt).check(cut(64, 64), 2, strict=True)


@pytest.mark.parametrize("fmt", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(
    ("sizes", "keys", "masked"),
    [
        ((5, 1024, 256, 32), 64, False),  # one team
        ((5, 576, 64, 32), 64, False),  # teams of two tiles, with three heads and with two
        ((2, 1024, 130, 64), 64, False),  # a last block that is short
        ((3, 1024, 1024, 32), 256, True),
    ],
)
def test_a_team_loads_the_next_head_while_it_computes(
    sizes: tuple[int, int, int, int], keys: int, masked: bool, fmt: Format
) -> None:
    case = made(sizes, fmt, causal(*sizes[1:3]) if masked else None)
    text = case.check(cut(64, keys, True), 4, strict=True)
    assert re.search(r"rdma.* worker=1", text) and "ncc.wait                worker=1" in text


def test_a_team_without_room_for_two_heads_loads_each_in_its_turn() -> None:
    case = made((5, 1024, 256, 32), Format.FP16)
    text = case.check(cut(64, 64, True), 4, 0x20000, strict=True)
    assert "dte.broadcast" in text and "worker=1" not in text


def test_a_team_with_few_blocks_of_queries_loads_each_head_in_its_turn() -> None:
    """The next head would not be there before the last block."""
    text = made((5, 512, 256, 32), Format.FP16).check(cut(64, 64, True), 4, strict=True)
    assert "dte.broadcast" in text and "worker=1" not in text


def test_what_is_shared_has_no_race() -> None:
    made((2, 128, 256, 32), Format.FP16).check(cut(64, 64, True), 4, strict=True)
    made((1, 128, 330, 64), Format.FP16).check(cut(64, 64, True), 2, 0x40000, strict=True)


def test_blocks_of_queries_out_of_step_share_nothing() -> None:
    """There are three blocks for two tiles of a team, so one tile would wait for the other for ever."""
    text = made((2, 192, 640, 64), Format.FP16).check(cut(64, 64, True), 4, SMALL[Format.FP16])
    assert "dte.broadcast" not in text


def by_keys(parts: int, queries: int, keys: int, way: str) -> Cut:
    """So many tiles share the keys of a head."""
    sizes = (("queries", queries), ("keys", keys))
    return Cut((("keys", parts),), sizes, (("exchange", way),))


BARRIER = re.compile(r"ncc\.barrier +tiles=[^0]")
"""A barrier of a team: its tiles are in a register."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fmt", list(TOLERANCE), ids=str)
@pytest.mark.parametrize(
    ("sizes", "parts", "keys"),
    [((2, 7, 256, 64), 8, 32), ((1, 1, 96, 16), 4, 8), ((3, 40, 128, 40), 2, 64), ((2, 64, 512, 64), 4, 64)],
)
def test_tiles_that_share_the_keys_of_a_head(
    sizes: tuple[int, int, int, int], parts: int, keys: int, fmt: Format, way: str
) -> None:
    text = made(sizes, fmt).check(by_keys(parts, sizes[1], keys, way), 16, strict=True)
    assert BARRIER.search(text)
    assert ("dte." in text.replace("dte.wait", "")) == (way == "dte")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [1, 5])
def test_shared_keys_of_which_a_mask_hides_all_that_one_tile_has(rows: int, way: str) -> None:
    seen = np.where(np.arange(96) % 5 < 4, 0.0, -1e4)
    seen[24:48] = -np.inf
    mask = np.tile(seen, (rows, 1)).astype(np.float32) + draw(rows, 96)
    made((2, 5, 96, 32), Format.FP16, mask).check(by_keys(4, 5, 12, way), 8, strict=True)


@pytest.mark.parametrize(
    ("sizes", "parts", "keys", "tiles", "mask"),
    [
        ((2, 7, 250, 32), 8, 32, 16, None),  # keys that are not divided evenly
        ((4, 7, 256, 32), 8, 32, 16, None),  # too few tiles
        ((1, 65, 128, 32), 2, 64, 4, None),  # more queries than a plane has
        ((1, 64, 128, 32), 2, 64, 4, causal(64, 128)),  # blocks that are skipped
    ],
)
def test_keys_that_cannot_be_shared_are_not(
    sizes: tuple[int, int, int, int], parts: int, keys: int, tiles: int, mask: Array | None
) -> None:
    text = made(sizes, Format.FP16, mask).check(by_keys(parts, sizes[1], keys, "ddr"), tiles)
    assert not BARRIER.search(text)


@pytest.mark.long
def test_every_cut() -> None:
    case = made((3, 200, 300, 40), Format.FP16, draw(300))
    for found in attention_cuts(Target(4, 0x2F0000, Format.FP16), case.work):
        case.check(found, 4)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_padding_mask_as_exporters_write_it(dtype: str) -> None:
    """(1 - taken) times the lowest FP32 number, which must not become infinite in shorter formats."""
    nodes = [
        ("Sub", ["one", "taken"], ["hidden"], {}),
        ("Mul", ["hidden", "lowest"], ["mask"], {}),
        ("MatMul", ["q", "k"], ["s"], {}),
        ("Add", ["s", "mask"], ["m"], {}),
        ("Softmax", ["m"], ["p"], {"axis": -1}),
        ("MatMul", ["p", "v"], ["y"], {}),
    ]
    lowest = np.array(np.finfo(np.float32).min)
    shapes = {"q": (2, 20, 16), "k": (2, 16, 30), "v": (2, 30, 16), "taken": (1, 1, 30)}
    g = graph(nodes, shapes, {"one": np.array(1, np.float32), "lowest": lowest})
    inputs = {name: draw(*shape, seed=len(name)) * 0.5 for name, shape in shapes.items()}
    inputs["taken"] = (np.arange(30) < 20).astype(np.float32).reshape(1, 1, 30)
    assert_right(g, dtype, 4, inputs=inputs)
