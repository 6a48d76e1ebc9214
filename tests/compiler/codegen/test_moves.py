"""Loads and stores between two places of the scratchpad become moves; others do not change."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.codegen.expr import Address, Variable
from compiler.codegen.spm import SpmBuffer, SpmOverflow
from compiler.codegen.writing.moves import within_scratchpad

BUFFER = Address("b", 256, SpmBuffer("b", 4096, ()))
TARGET = Address("t", 0, SpmBuffer("t", 4096, ()))
ELSEWHERE = Address("x")


def moved_elements(arguments: dict[str, int], side: str, fmt: int) -> list[int]:
    """The numbers of the bytes of one side of a move, in the order of the stream, by the record's meaning."""
    places = np.zeros(1, int)
    for level in range(3):
        step, count = arguments.get(f"{side}_stride{level}", 0), arguments.get(f"{side}_iter{level}", 1)
        places = (np.arange(count)[:, None] * step + places[None, :]).reshape(-1)
    return (places[:, None] + np.arange(arguments["n"])).reshape(-1).tolist()


@pytest.mark.parametrize("engine", ["rdma", "wdma"])
@pytest.mark.parametrize(
    "loops",
    [
        {"n": 40},
        {"n": 5, "stride0": 9, "iter0": 3},
        {"n": 2, "stride0": 3, "iter0": 4, "stride1": 50, "iter1": 2, "stride2": 0, "iter2": 3},
        {"n": 7, "stride0": 1, "iter0": 1, "stride1": 20, "iter1": 3},
    ],
)
def test_the_same_bytes_in_the_same_order(engine: str, loops: dict[str, int]) -> None:
    places = {"src": BUFFER, "dst": TARGET}
    mnemonic, arguments = within_scratchpad(f"{engine}.fp16", {**places, **loops}, {})
    assert mnemonic == "td.gatherscatter"
    assert (arguments["src0"], arguments["dst"]) == (BUFFER, TARGET)
    strided, packed = ("src", "dst") if engine == "rdma" else ("dst", "src")
    elements = np.arange(loops["n"])
    for level in range(3):
        step, count = loops.get(f"stride{level}", 0), loops.get(f"iter{level}", 1)
        outer = np.arange(count)[:, None] * step
        elements = (outer + elements.reshape(1, -1)).reshape(-1)
    wanted = (elements[:, None] * 2 + np.arange(2)).reshape(-1).tolist()
    numbers = {name: value for name, value in arguments.items() if isinstance(value, int)}
    assert moved_elements(numbers, strided, 2) == wanted
    assert moved_elements(numbers, packed, 2) == list(range(len(wanted)))


def test_an_address_in_a_register() -> None:
    kept = Variable("s3", 0, 1 << 22)
    arguments = {"dst": TARGET, "src": kept + 64, "n": 8}
    assert within_scratchpad("rdma.fp32", arguments, {kept: BUFFER})[0] == "td.gatherscatter"
    assert within_scratchpad("rdma.fp32", arguments, {kept: ELSEWHERE}) == ("rdma.fp32", arguments)


def test_what_stays_as_it_is() -> None:
    for mnemonic, arguments in (
        ("rdma.fp16", {"dst": TARGET, "src": ELSEWHERE, "n": 8}),
        ("wdma.fp16", {"dst": ELSEWHERE, "src": BUFFER, "n": 8}),
        ("ct.relu.v.fp16", {"dst": TARGET, "src0": BUFFER, "n": 8}),
    ):
        assert within_scratchpad(mnemonic, arguments, {}) == (mnemonic, arguments)


@pytest.mark.parametrize("loops", [{"n": 1, "stride0": 2, "iter0": 16385}, {"n": 1 << 23}])
def test_more_than_a_move_can_have(loops: dict[str, int]) -> None:
    with pytest.raises(SpmOverflow, match="at most 16384 blocks of 16777215 bytes are possible"):
        within_scratchpad("rdma.fp32", {"dst": TARGET, "src": BUFFER, **loops}, {})
