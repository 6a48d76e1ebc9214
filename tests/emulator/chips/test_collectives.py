"""The collectives of tx8_chips.h against NumPy: groups of several meshes, sizes that do not divide."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from c_tools import build, needs_gcc
from chip_programs import chips_of
from emulator.chips.mesh import ChipMesh
from emulator.program import Program, load
from tx8isa.machine.description import Machine, load_machine

WORDS = 4096
"""Of a tile's row."""
PROGRAM = """
#include <tx8_chips.h>
enum { WORDS = 4096, AT = 0x10000, TO = 0x20000, WORK = 0x30000, SCRATCH = 0x40000 };
uint32_t task[4] = {9, 9, 9, 9}; /* operation, axis, count, root; in .data, which nobody clears */
uint32_t data[TX8_TILES][WORDS] = {{1}};
uint32_t at[TX8_TILES][WORDS] = {{1}}, to[TX8_TILES][WORDS] = {{1}};

static void run(const tx8_group *g, unsigned operation, uint32_t count, unsigned root) {
    const unsigned next = tx8_member(g, 1), last = tx8_member(g, g->size - 1);
    switch (operation) {
    case 0: tx8_all_reduce(g, AT, WORK, count, tx8_add_fp32); break;
    case 1: tx8_all_reduce(g, AT, WORK, count, tx8_add_int32); break;
    case 2: tx8_reduce_scatter(g, AT, WORK, count, tx8_add_int32); break;
    case 3: tx8_all_gather(g, AT, count); break;
    case 4: tx8_all_reduce_tree(g, AT, WORK, count, tx8_add_fp32); break;
    case 5: tx8_broadcast(g, root, AT, count); break;
    case 6: tx8_scatter(g, root, AT, TO, count); break;
    case 7: tx8_gather(g, root, AT, TO, count); break;
    case 8: tx8_all_to_all(g, AT, TO, count); break;
    case 9:
        if (g->place == root)
            tx8_send(g, next, AT, TO, count);
        else if (last == root)
            tx8_receive(g, root);
        break;
    default: /* what was written before the barrier is there after it */
        if (g->size > 1)
            tx8_chip_copy(tx8_chip_remote(g->chips[next], TO), AT, count, 0);
        tx8_group_barrier(g);
    }
}

int main(void) {
    const unsigned tile = tx8_tile();
    tx8_chips_open(SCRATCH);
    const tx8_group group = tx8_group_of((enum tx8_axis)task[1]);
    DMA_Param load = tx8_rdma(0, TX8_FP32, AT, tx8_engine_address(data[tile]), WORDS);
    DMA_Param fill = tx8_rdma(0, TX8_FP32, TO, tx8_engine_address(to[tile]), WORDS);
    tx8_execute(&load);
    tx8_execute(&fill);
    tx8_wait(0);
    tx8_group_barrier(&group);
    run(&group, task[0], task[2], task[3]);
    tx8_group_barrier(&group);
    DMA_Param first = tx8_wdma(0, TX8_FP32, tx8_engine_address(at[tile]), AT, WORDS);
    DMA_Param second = tx8_wdma(0, TX8_FP32, tx8_engine_address(to[tile]), TO, WORDS);
    tx8_execute(&first);
    tx8_execute(&second);
    tx8_wait(0);
    return 0;
}
"""
ALL, ALONG_X, ALONG_Y = range(3)
Rows = list[np.ndarray]
Oracle = Callable[[Rows, Rows, int, int], None]
"""Changes the members' bytes at ``AT`` and at ``TO``, for a count and a root."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(PROGRAM, tmp_path_factory.mktemp("collectives"))


@cache
def mesh_machine(x: int, y: int, shape: str, good: int) -> Machine:
    """A machine of x times y chips with few good tiles each, so that a run is short."""
    found = load_machine("tx81").of_chips(x, y)
    chips = msgspec.structs.replace(chips_of(found), shape=shape, good=(good,) * (x * y))
    return msgspec.structs.replace(found, chips=chips)


def groups(x: int, y: int, axis: int) -> list[list[int]]:
    """The chips of every group."""
    if axis == ALL:
        return [list(range(x * y))]
    if axis == ALONG_X:
        return [[column * y + row for column in range(x)] for row in range(y)]
    return [[column * y + row for row in range(y)] for column in range(x)]


# --- their results, on rows of bytes ----------------------------------------------------------


def chunks(size: int, count: int) -> list[slice]:
    words = (count + size - 1) // size
    each = (words + 63) // 64 * 64
    return [slice(min(m * each, count), min((m + 1) * each, count)) for m in range(size)]


def reduced(at: Rows, count: int, dtype: type) -> Rows:
    """The sum of each chunk, in the order that the header says."""
    rows, size, found = [row.view(dtype) for row in at], len(at), []
    for member, chunk in enumerate(chunks(size, count)):
        total = rows[(member + 1) % size][chunk]
        for after in range(2, size + 1):
            total = rows[(member + after) % size][chunk] + total
        found.append(total.copy())
    return found


def all_reduce(dtype: type) -> Oracle:
    def change(at: Rows, to: Rows, count: int, root: int) -> None:
        whole = np.concatenate(reduced(at, count, dtype))
        for row in at:
            row.view(dtype)[:count] = whole

    return change


def reduce_scatter(at: Rows, to: Rows, count: int, root: int) -> None:
    sums = reduced(at, count, np.uint32)
    for row, chunk, total in zip(at, chunks(len(at), count), sums, strict=True):
        row.view(np.uint32)[chunk] = total


def all_gather(at: Rows, to: Rows, count: int, root: int) -> None:
    own = [row.view(np.uint32)[chunk] for row, chunk in zip(at, chunks(len(at), count), strict=True)]
    whole = np.concatenate(own)
    for row in at:
        row.view(np.uint32)[:count] = whole


def all_reduce_tree(at: Rows, to: Rows, count: int, root: int) -> None:
    sums = [row.view(np.float32)[:count] for row in at]
    while len(sums) > 1:
        sums = [sum(sums[pair + 1 : pair + 2], start=sums[pair]) for pair in range(0, len(sums), 2)]
    whole = sums[0].copy()
    for row in at:
        row.view(np.float32)[:count] = whole


def broadcast(at: Rows, to: Rows, count: int, root: int) -> None:
    for row in at:
        row[:count] = at[root][:count]


def scatter(at: Rows, to: Rows, count: int, root: int) -> None:
    for member, row in enumerate(to):
        row[:count] = at[root][member * count :][:count]


def gather(at: Rows, to: Rows, count: int, root: int) -> None:
    for member, row in enumerate(at):
        to[root][member * count :][:count] = row[:count]


def all_to_all(at: Rows, to: Rows, count: int, root: int) -> None:
    for a, row in enumerate(to):
        for b, other in enumerate(at):
            row[b * count :][:count] = other[a * count :][:count]


def send(at: Rows, to: Rows, count: int, root: int) -> None:
    to[(root + 1) % len(to)][:count] = at[root][:count]


def barrier(at: Rows, to: Rows, count: int, root: int) -> None:
    for member, row in enumerate(at if len(at) > 1 else []):
        to[(member + 1) % len(to)][:count] = row[:count]


OPERATIONS: list[Oracle] = [
    all_reduce(np.float32),
    all_reduce(np.uint32),
    reduce_scatter,
    all_gather,
    all_reduce_tree,
    broadcast,
    scatter,
    gather,
    all_to_all,
    send,
    barrier,
]
NAMES = [
    *("all-reduce fp32", "all-reduce int32", "reduce-scatter", "all-gather"),
    *("all-reduce on a tree fp32", "broadcast", "scatter", "gather", "all-to-all", "send", "barrier"),
]
OF_WORDS = 5
"""The first operations count words and leave partial sums elsewhere; the others count bytes."""

# --- on the chips -----------------------------------------------------------------------------


def memory(mesh: ChipMesh, chip: int, name: str, rows: int, words: int) -> np.ndarray:
    """The words of a variable in the DDR of a chip."""
    first = mesh.image.symbols[name].address - 0x8000_0000
    size = rows * words * 4
    return mesh.chips[chip].ddr[first : first + size].view(np.uint32).reshape(rows, words)


def check(path: Path, found: Machine, operation: int, axis: int, count: int, root: int = 0) -> ChipMesh:
    """Run an operation on random rows, and compare every byte that it defines."""
    chips, rng = chips_of(found), np.random.default_rng(operation)
    assert not isinstance(chips.good, msgspec.UnsetType)
    tiles = [tile for tile in range(16) if chips.good[0] >> tile & 1]
    mesh = Program(load(path).image, found).start_chips({})
    for chip in range(chips.count):
        memory(mesh, chip, "task", 1, 4)[0] = operation, axis, count, root
        values = rng.standard_normal((16, WORDS), dtype=np.float32)
        memory(mesh, chip, "data", 16, WORDS)[:] = values.view(np.uint32)
    before = {
        name: [memory(mesh, chip, name, 16, WORDS).copy() for chip in range(chips.count)]
        for name in ("data", "to")
    }
    mesh.run()
    for tile in tiles:
        for group in groups(chips.x, chips.y, axis):
            at, to = ([before[name][chip][tile].view(np.uint8) for chip in group] for name in ("data", "to"))
            OPERATIONS[operation](at, to, count, root)
            own = chunks(len(group), count)
            for member, chip in enumerate(group):
                got = memory(mesh, chip, "at", 16, WORDS)[tile]
                part = own[member] if operation == 2 else slice(None)
                assert (got[part] == at[member].view(np.uint32)[part]).all(), (tile, chip)
                assert (memory(mesh, chip, "to", 16, WORDS)[tile] == to[member].view(np.uint32)).all()
    return mesh


@needs_gcc
@pytest.mark.parametrize("operation", range(len(OPERATIONS)), ids=NAMES)
def test_on_a_square(operation: int, program: Path) -> None:
    check(program, mesh_machine(2, 2, "mesh", 1), operation, ALL, 501 if operation < OF_WORDS else 37, root=2)


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("operation", range(len(OPERATIONS)), ids=NAMES)
@pytest.mark.parametrize(
    ("x", "y", "shape", "axis"),
    [
        (1, 2, "mesh", ALL),
        (3, 1, "torus", ALL),
        (3, 2, "mesh", ALL),
        (3, 2, "mesh", ALONG_X),
        (3, 2, "torus", ALONG_Y),
        (4, 8, "mesh", ALL),
        (4, 8, "mesh", ALONG_Y),
    ],
)
def test_on_other_meshes(operation: int, x: int, y: int, shape: str, axis: int, program: Path) -> None:
    """Sizes that divide, that do not, and that leave some members empty."""
    size = len(groups(x, y, axis)[0])
    for count in (1, 63, 65 * size + 3, WORDS) if operation < OF_WORDS else (1, 255, WORDS * 4 // size):
        check(program, mesh_machine(x, y, shape, 1), operation, axis, count, root=(count + 1) % size)


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("operation", range(len(OPERATIONS)), ids=NAMES)
def test_tiles_side_by_side(operation: int, program: Path) -> None:
    check(program, mesh_machine(2, 2, "mesh", 0x8421), operation, ALL, 300, root=1)


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("operation", [0, 4, 8])
def test_nothing_races(operation: int, program: Path) -> None:
    """Copies, sums and waits are in order."""
    found = mesh_machine(2, 1, "mesh", 1)
    mesh = Program(load(program).image, found).start_chips({}, strict=True)
    for chip in range(2):
        memory(mesh, chip, "task", 1, 4)[0] = operation, ALL, 256, 0
    mesh.run()
    assert [hazard.text for hazard in mesh.hazards() if hazard.other is not None] == []
