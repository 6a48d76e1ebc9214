"""Reference of the loop nests: gather and scatter, fill, RDMA and WDMA."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from tx8isa.records.meaning import Fill, Load, Nest, Store

from .run import Run


def _places(run: Run, prefix: str, base: int, unit: Callable[[int], int]) -> Iterator[int]:
    """Addresses of the blocks of a loop nest, level 0 innermost."""
    stride = [unit(run.values[f"{prefix}stride{level}"]) for level in range(3)]
    trips = [run.values[f"{prefix}iter{level}"] for level in range(3)]
    for c, b, a in product(range(trips[2]), range(trips[1]), range(trips[0])):
        yield base + a * stride[0] + b * stride[1] + c * stride[2]


def _nest(run: Run) -> None:
    n = run.values["n"]
    sources = _places(run, "src_", run.values["src0"], int)
    targets = _places(run, "dst_", run.values["dst"], int)
    for of, to in zip(sources, targets, strict=True):
        for k in range(n):
            run.spm[to + k] = run.before[of + k]


def _fill(run: Run) -> None:
    size = run.form.bits // 8
    for base in _places(run, "", run.values["dst"], int):
        for k in range(run.values["n"]):
            run.write(base + k * size, run.values["value"], size)


def _transfer(run: Run) -> None:
    bits, loads = run.form.bits, isinstance(run.meaning, Load)
    block = -(-bits * run.values["n"] // 8)
    for k, place in enumerate(
        _places(run, "", run.values["src" if loads else "dst"], lambda s: bits * s // 8)
    ):
        compact = run.values["dst" if loads else "src"] + k * block
        for byte in range(block):
            if loads:
                run.spm[compact + byte] = run.ddr[place + byte]
            else:
                run.ddr[place + byte] = run.spm[compact + byte]


RULES: dict[type, Callable[[Run], None]] = {Nest: _nest, Fill: _fill, Load: _transfer, Store: _transfer}
