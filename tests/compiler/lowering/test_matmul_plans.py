"""Products that tiles share: every cut gives equal numbers, without a race.

Matrices of small integers, so that every order of summation gives NumPy's exact integers.
"""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.tensors import DdrTensor
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.team import meet, own_parts, send, tile_grid
from compiler.driver import compile_graph
from compiler.lowering.generate import attempt
from compiler.lowering.matmul.matmul import matmul_cuts
from compiler.lowering.record import Cut
from compiler_harness import assert_right, draw, graph, one, small_machine
from matmul_cases import SPM, Case, integers, made, step
from phase_harness import generated_in, output_of, phase_program, run_phase, travelling
from tx8isa.machine.description import Machine, load_machine
from tx8isa.numbers.formats import Format


def shared(found: list[Cut]) -> list[Cut]:
    return [cut for cut in found if cut.choice("share", "none") != "none"]


def slower_ddr(machine: Machine, times: float) -> Machine:
    """The machine with DDR of so many times its rate."""
    rate = machine.ddr.nominal
    figures = {name: getattr(rate, name) * times for name in ("value", "least", "most")}
    slower = msgspec.structs.replace(machine.ddr, nominal=msgspec.structs.replace(rate, **figures))
    return msgspec.structs.replace(machine, ddr=slower)


@pytest.mark.parametrize("spm", [260, 400, 700, 1200])
@pytest.mark.parametrize(
    ("fmt", "stored"), [(Format.FP16, None), (Format.BF16, Format.FP32), (Format.FP32, None)]
)
def test_a_plan_that_is_proposed_fits_the_scratchpad(fmt: Format, stored: Format | None, spm: int) -> None:
    """Also the tail of the inner dimension: the buffers of every plan fit ``spm`` KiB."""
    case = made((512, 512 + 33), (512 + 33, 512), fmt, stored=stored, out=fmt)
    target = Target(16, spm << 10, fmt)
    found = [cut for cut in matmul_cuts(target, case.work) if cut.choice("stay", "") and cut.sizes]
    assert len(found) >= 4
    for cut in found:
        generated_in(case.cut(cut).lower, target, target.spm_bytes)


@pytest.mark.parametrize(("rows", "terms", "columns"), [(256, 256, 256), (128, 768, 768), (1024, 256, 512)])
def test_where_ddr_is_slower_fewer_tiles_load_a_constant(rows: int, terms: int, columns: int) -> None:
    """The first proposal follows from the rates of the machine, as the choice of the search does."""
    made = graph([("MatMul", ["x", "w"], ["y"], {})], {"x": (rows, terms)}, {"w": draw(terms, columns)})
    parts = []
    for times in (1, 0.5):
        program = compile_graph(made, "fp16", machine=slower_ddr(load_machine(None), times))
        assert program.report is not None
        chosen = program.report.templates[0].chosen
        parts.append(math.prod(chosen.tiles.values()))
    assert parts[1] < parts[0]


@pytest.mark.long
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32, Format.FP32])
@pytest.mark.parametrize("constant", [False, True])
def test_every_cut_gives_the_same_result(fmt: Format, constant: bool) -> None:
    case = made((130, 128 + 20), (128 + 20, 200), fmt, constant)
    found = case.all_cuts()
    assert shared(found)
    assert found[-1].choice("way", "plan") == "blocks"
    for cut in (None, *found):
        case.cut(cut).check()


@pytest.mark.long
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32])
def test_no_cut_changes_a_bit(fmt: Format) -> None:
    """Sums are in FP32 and in one order, however the inner dimension is divided; then they are rounded once.

    Only tiles that share the terms of a product add up in another order (test_matmul_split.py).
    """
    case = made((70, 320 + 9), (320 + 9, 200), fmt, out=fmt)
    data = {"a": draw(70, 329, seed=1), "b": draw(329, 200, seed=2)}
    results = set()
    for tiles in (3, 16):
        for cut in (None, *case.all_cuts(tiles, 0x40000)):
            lower = case.cut(cut).lower
            got, _ = run_phase(lower, data, case.tensors, case.work.output, tiles, small_machine(0x40000))
            results.add(got.tobytes())
    assert len(results) == 1


@pytest.mark.parametrize(
    ("tiles", "share"),
    [
        (2, "rows"),
        (2, "columns"),
        (3, "rows"),
        (4, "columns"),
        (4, "both"),
        (8, "both"),
        (16, "columns"),
        (16, "both"),
    ],
)
def test_tiles_that_share(tiles: int, share: str) -> None:
    case = made((96, 192), (192, 384), Format.BF16, stored=Format.FP32)
    ways = [cut for cut in case.all_cuts(tiles) if cut.choice("share", "none") == share]
    lines = case.cut(ways[0]).check(tiles)
    assert any("dte.broadcast" in line for line in lines)


GRIDS = [
    (((1, 16, 1), (16, 64, 64)), "left", "columns"),
    (((1, 1, 4), (100, 64, 128)), "right", "rows"),
    (((1, 4, 4), (64, 64, 64)), "none", "both"),
    (((1, 3, 2), (86, 64, 64)), "left", "both"),
    (((1, 2, 2), (43, 128, 256)), "right", "both"),
    (((1, 2, 4), (64, 64, 128)), "none", "none"),
]


def cut_of(grid: tuple[int, ...], sizes: tuple[int, ...], stay: str, share: str, deal: str = "planes") -> Cut:
    """``sizes``: m, n, k, and perhaps the chunks that a tile loads at once."""
    names = ("batch", "m", "n")
    return Cut(
        tuple(zip(names, grid, strict=True)),
        tuple(zip(("m", "n", "k", "together"), sizes, strict=False)),
        (("stay", stay), ("share", share), ("deal", deal)),
    )


@pytest.mark.parametrize(
    ("fmt", "stored"), [(Format.FP16, None), (Format.BF16, Format.FP32), (Format.FP32, None)]
)
@pytest.mark.parametrize(
    ("grid", "sizes", "stay", "share"),
    [
        ((1, 16, 1), (16, 256, 64, 4), "left", "columns"),
        ((1, 4, 4), (64, 128, 64), "none", "both"),
        ((1, 2, 4), (32, 128, 128), "right", "both"),
        ((1, 1, 4), (128, 128, 128), "left", "rows"),
        ((1, 3, 2), (86, 128, 64), "none", "both"),
    ],
)
def test_tiles_that_send_rows(
    grid: tuple[int, ...], sizes: tuple[int, ...], stay: str, share: str, fmt: Format, stored: Format | None
) -> None:
    """Every tile loads some rows of a chunk, all of their columns in one run, and gets the others' rows.

    64 rows are not divided among 3 tiles, nor the rows of blocks of which the last one has fewer.
    """
    if stored or fmt is Format.FP32:
        sizes = sizes[:3]  # what is converted is loaded in smaller pieces
    case = made((256, 256 + 7), (256 + 7, 512 + 40), fmt, stored=stored)
    case = case.cut(cut_of(grid, sizes, stay, share, "rows"))
    lines = case.check()
    runs = [int(line.split("n=")[1].split(",")[0]) for line in lines if "rdma" in line and "iter0=" in line]
    assert max(runs) >= (sizes[1] if share == "columns" else 64)


@pytest.mark.parametrize("deal", ["planes", "rows"])
def test_blocks_with_fewer_rows_are_loaded_chunk_by_chunk(deal: str) -> None:
    """A tile's chunks are adjacent only if all blocks have equally many rows: 250 rows are 15 x 16 and 10."""
    case = made((250, 256), (256, 512), Format.FP16)
    grid, sizes = (1, 16, 1), (16, 256, 64)
    case.cut(cut_of(grid, sizes, "left", "columns", deal)).check()
    with pytest.raises(ValueError, match="evenly"):
        case.cut(cut_of(grid, (*sizes, 4), "left", "columns", deal)).check()
    for cut in case.all_cuts():
        assert "together" not in dict(cut.sizes)
        if cut.choice("stay", "") == "left":
            case.cut(cut).check()


@pytest.mark.parametrize(("deal", "together"), [("columns", 1), ("rows", 3), ("planes", 8), ("planes", 0)])
def test_unknown_ways_to_load_are_refused(deal: str, together: int) -> None:
    case = made((256, 256), (256, 512), Format.FP16)
    case = case.cut(cut_of((1, 4, 1), (64, 64, 64, together), "left", "columns", deal))
    with pytest.raises(ValueError, match="does not divide a product of 1 x 256 x 256 x 512 evenly"):
        attempt("p0", case.work, Target(16, SPM, Format.FP16), SPM, False)


@pytest.mark.long
@pytest.mark.parametrize("stored", [Format.FP32, Format.FP16])
@pytest.mark.parametrize(("sizes", "stay", "share"), GRIDS)
def test_no_hazard_and_no_dependence_on_threads(
    sizes: tuple[tuple[int, ...], tuple[int, ...]], stay: str, share: str, stored: Format
) -> None:
    """Rows and an inner dimension that do not divide evenly, and columns that remain for blocks."""
    m = {16: 256, 100: 100, 64: 256, 86: 258, 43: 170}[sizes[1][0]] - (share != "none")
    case = made((m, 256 + 7), (256 + 7, 512 + 40), Format.FP16, stored=stored, out=Format.FP16)
    case = case.cut(cut_of(*sizes, stay, share))
    program, lines = phase_program(case.lower, case.tensors, case.work.output, 16)
    given = travelling(case.inputs, case.tensors)
    once = output_of(program, given)
    assert np.array_equal(once.astype(np.float64), case.want)
    assert any("dte.broadcast" in line for line in lines) == (share != "none")
    for threads in (1, 2):
        assert program.run(given, threads=threads)["y"].tobytes() == once.tobytes()


@pytest.mark.parametrize(
    ("share", "trans_b", "fmt"),
    [
        ("none", 0, Format.FP16),
        ("both", 0, Format.FP16),
        ("both", 0, Format.FP32),
        ("both", 1, Format.FP16),
        ("both", 1, Format.FP32),
    ],
)
def test_chunks_of_several_planes_come_and_go_in_long_runs(share: str, trans_b: int, fmt: Format) -> None:
    """A team deals the rows of the right operand, so that pieces have all its columns, and adds up pieces."""
    case = made((255, 512), (512, 512), fmt, transA=0, transB=trans_b)
    case = case.cut(cut_of((1, 4, 2), (32, 128, 512), "none", share))
    program, lines = phase_program(case.lower, case.tensors, case.work.output, 16)
    got = output_of(program, travelling(case.inputs, case.tensors))
    assert np.array_equal(got.astype(np.float64), case.want)
    copies = [line for line in lines if "rdma" in line or "wdma" in line]
    assert copies and not any("n=64," in line for line in copies)
    pieces = 4 if share == "both" and not trans_b else 1
    products = [line for line in lines if "ne.gemm" in line and f"k={512 // pieces}" in line]
    assert len(products) == (1 if fmt is Format.FP16 else 3) * pieces


@pytest.mark.long
@pytest.mark.parametrize("share", ["none", "both"])
@pytest.mark.parametrize("stay", ["left", "right", "none"])
def test_batches_have_groups_of_tiles(stay: str, share: str) -> None:
    case = made((3, 4, 70, 64), (4, 64, 128), Format.FP16)
    case = case.cut(cut_of((4, 2, 2), (18, 64, 64), stay, share))
    program, _ = phase_program(case.lower, case.tensors, case.work.output, 16)
    result = output_of(program, travelling(case.inputs, case.tensors))
    assert np.array_equal(result.astype(np.float64), case.want)


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
def test_transposed_operands_of_a_plan(trans_a: int, trans_b: int, fmt: Format) -> None:
    a = (128, 192) if trans_a else (192, 128)
    b = (192, 128) if trans_b else (128, 192)
    case = made(a, b, fmt, transA=trans_a, transB=trans_b)
    found = case.all_cuts()
    for cut in (shared(found)[0], found[0], found[-1]):
        lines = case.cut(cut).check()
        assert any(f"lt={trans_a}, rt={1 - trans_b}" in line for line in lines)


@pytest.mark.long
@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.TF32, Format.FP32])
@pytest.mark.parametrize(("trans_b", "constant"), [(0, False), (1, False), (0, True)])
@pytest.mark.parametrize(("columns", "rest"), [(1, 1), (37, 0), (63, 63)])
def test_columns_beyond_the_last_plane(
    columns: int, rest: int, trans_b: int, constant: bool, fmt: Format
) -> None:
    """The tiles of the last columns compute them too, so no part of the left operand is loaded only for
    them."""
    b = (128 + columns, 128 + rest) if trans_b else (128 + rest, 128 + columns)
    case = made((130, 128 + rest), b, fmt, constant, transA=0, transB=trans_b)
    for tiles in (1, 16):
        planned = [cut for cut in case.all_cuts(tiles) if cut.choice("way", "plan") == "plan"]
        for cut in planned:
            lines = case.cut(cut).check(tiles)
            assert any("tail_sums" in line for line in lines)
            assert not any("dst=p0.product" in line for line in lines), "no blocks besides"


@pytest.mark.parametrize("out", [Format.FP16, Format.FP32])
def test_what_follows_a_product_follows_in_the_last_columns_too(out: Format) -> None:
    case = made((192, 128), (128, 192 + 9), Format.FP16, out=out)
    v = DdrTensor("v", Format.FP32, (201,))
    work = replace(case.work, steps=(step("Add", case.work.output, v), step("Relu", case.work.output)))
    values = integers((201,), 3)
    case = replace(case, inputs={**case.inputs, "v": values}, want=np.maximum(case.want + values, 0))
    case = replace(case, work=work)
    for stay, share in (("left", "columns"), ("none", "both"), ("right", "none")):
        grid, sizes = ((1, 3, 3), (64, 64, 64)) if stay == "none" else ((1, 2, 1), (96, 64, 64))
        if stay == "right":
            sizes = (48, 192, 64)
        found = case.cut(cut_of(grid, sizes, stay, share))
        program, lines = phase_program(found.lower, found.tensors, found.work.output, 16)
        got = output_of(program, travelling(found.inputs, found.tensors))
        assert any("tail_sums" in line for line in lines)
        assert np.array_equal(got.astype(np.float64), case.want)


@pytest.mark.parametrize(("grid", "beside"), [((4, 2, 1), True), ((2, 2, 1), False)])
def test_last_columns_of_batches(grid: tuple[int, int, int], beside: bool) -> None:
    """They stay for one batch; tiles with several batches compute them at the end, block by block."""
    case = made((4, 70, 64), (4, 64, 130), Format.FP16).cut(cut_of(grid, (35, 64, 64), "none", "none"))
    lines = case.check()
    assert any("tail_sums" in line for line in lines) == beside


def test_more_columns_than_a_plane_are_left() -> None:
    case = made((128, 64), (64, 3 * 64 + 5), Format.FP16).cut(cut_of((1, 2, 2), (64, 64, 64), "none", "none"))
    assert not any("tail_sums" in line for line in case.check(4))


@pytest.mark.parametrize("seed", range(12))
def test_random_shapes(seed: int) -> None:
    """The lowering's own rule on any scratchpad and number of tiles."""
    draws = np.random.default_rng(seed)
    m, n = (int(draws.choice([1, 7, 33, 64, 100, 190])) for _ in range(2))
    k = int(draws.choice([1, 24, 64, 100, 130, 320]))
    batch = tuple(int(size) for size in draws.integers(1, 4, int(draws.integers(0, 3))))
    fmt = (Format.FP16, Format.BF16, Format.FP32, Format.TF32)[seed % 4]
    case = made((*batch, m, k), (*batch, k, n), fmt, stored=(None, Format.FP32)[seed % 3 == 0])
    case.check(int(draws.choice([2, 5, 16])), int(draws.choice([0x8000, 0x20000, SPM])))


def test_a_small_scratchpad_still_shares() -> None:
    case = made((64, 512), (512, 512), Format.FP16)
    found = shared(case.all_cuts(16, 0x10000))
    assert found
    case.cut(found[0]).check(spm=0x10000)


def test_a_cut_that_does_not_fit_is_refused() -> None:
    """As the search relies on it."""
    case = made((256, 256), (256, 256), Format.BF16).cut(cut_of((1, 2, 2), (128, 128, 256), "none", "both"))
    attempt("p0", case.work, Target(16, 0x80000, Format.BF16), 0x80000, False)
    with pytest.raises(SpmOverflow):
        attempt("p0", case.work, Target(16, 0x40000, Format.BF16), 0x40000, False)


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ((1, 4, 4), (100, 64, 64)),
        ((1, 4, 4), (64, 65, 64)),
        ((1, 4, 4), (64, 64, 96)),
        ((1, 4, 4), (64, 64, 48)),
        ((1, 4, 8), (64, 64, 64)),
        ((2, 2, 2), (64, 64, 64)),
        ((1, 1, 16), (256, 64, 64)),
    ],
)
def test_cuts_that_do_not_come_out_even_are_refused(grid: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    case = made((256, 192), (192, 512), Format.FP16).cut(cut_of(grid, sizes, "none", "both"))
    with pytest.raises(ValueError, match="does not divide a product of 1 x 256 x 192 x 512 evenly"):
        attempt("p0", case.work, Target(16, SPM, Format.FP16), SPM, False)


@pytest.mark.parametrize("share", ["none", "both", "blocks"])
@pytest.mark.parametrize("out", [Format.FP16, Format.FP32])
def test_steps_behind_a_product(share: str, out: Format) -> None:
    """A vector per column, a tensor of the result's shape, and an operator of one operand, in this order."""
    case = made((70, 128), (128, 256), Format.FP16, out=out)
    vector, other = integers((256,), 3), integers((70, 256), 4)
    v, w = DdrTensor("v", Format.FP16, (256,)), DdrTensor("w", Format.FP16, (70, 256))
    steps = (
        step("Add", case.work.output, v),
        step("Sub", case.work.output, w),
        step("Relu", case.work.output),
    )
    cut = Cut(choices=(("way", "blocks"),))
    if share != "blocks":
        cut = cut_of((1, 2, 4), (35, 64, 64), "none", share)
    work = replace(case.work, steps=steps, cut=cut)
    want = np.maximum(case.want + vector - other, 0)
    Case(work, {**case.inputs, "v": vector, "w": other}, want).check()


def test_a_column_of_the_right_operand_is_a_row_of_the_result() -> None:
    """The steps' vectors then lie along the rows of the left operand."""
    case = made((3, 70, 64), (64,), Format.FP16)
    vector = integers((70,), 3)
    work = replace(case.work, steps=(step("Add", case.work.output, DdrTensor("v", Format.FP16, (70,))),))
    Case(work, {**case.inputs, "v": vector}, case.want + vector).check()


def test_a_constant_with_axes_of_one() -> None:
    assert_right(one("MatMul", [(3, 5, 6)], {"k": draw(1, 1, 6, 7)}), "fp32")


def test_parts_that_tiles_share() -> None:
    """More parts than tiles in a team: some bring two. Two tiles are in no team."""
    data = np.arange(1000, dtype=np.float64)
    source, target = DdrTensor("a", Format.FP32, (1000,)), DdrTensor("y", Format.FP32, (6, 1000))

    def lower(kernel: Kernel) -> None:
        with tile_grid(kernel, (2, 3)) as grid:
            team = grid.team(kernel, 1)
            place = kernel.buffer("all", 4000)
            meet(kernel, grid.team(kernel, 0, 1))
            with own_parts(kernel, team, 4) as part:
                own = kernel.buffer("own", 1024)
                kernel.emit("rdma.fp32", dst=own, src=source.at(part * 250), n=250)
                kernel.emit("ncc.wait")
                send(kernel, team, own, place + part * 1000, 1000)
                kernel.emit("dte.wait")
            meet(kernel, team)
            number = grid.position[0] * 3 + grid.position[1]
            kernel.emit("wdma.fp32", dst=target.at(number * 1000), src=place, n=1000)

    program, lines = phase_program(lower, [source], target, 8)
    result = output_of(program, {"a": data.astype(np.float32)})
    assert np.array_equal(result, np.tile(data, (6, 1)))
    assert sum("rdma" in line for line in lines) == 1


def test_a_grid_of_more_tiles_than_there_are_is_refused() -> None:
    kernel = Kernel("p0", Target(4, SPM, Format.FP16), SPM)
    with pytest.raises(ValueError, match="a grid of 6 tiles, there are 4"), tile_grid(kernel, (2, 3)):
        pass
