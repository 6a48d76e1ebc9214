"""Proves many programs in prime fields, and prints a table: ``make prove``.

    python tests/support/networks/proofs.py                 the examples and the networks of the benchmarks
    python tests/support/networks/proofs.py block encoder   some of them
    python tests/support/networks/proofs.py --random 200    as many random networks

A row says "proved"; "but for", with the instructions executed in real numbers; or "open", with the reason.
The exit status is 1 if a program is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import onnx

from compiler.driver import compile_graph
from compiler.frontend import load
from compiler.graph import Graph, GraphError
from compiler.tools.verification.findings import Proof, lines
from compiler.tools.verification.prove import prove
from network_draws import drawn
from paths import ROOT

sys.path.insert(0, str(ROOT / "examples" / "networks"))
from light import NAMES, light_model
from make import resnet_block
from transformers import SIZES, transformer

Make = Callable[[], Graph]


def _read(model: onnx.ModelProto) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        return load(path)


def named() -> dict[str, Make]:
    """The examples and the networks of the benchmarks."""
    found: dict[str, Make] = {
        path.stem: partial(load, path)
        for name in ("mlp", "attention", "batchnorm")
        for path in sorted((ROOT / "examples" / name).glob("*.json"))
    }
    found["digits"] = partial(load, ROOT / "examples/digits/digits.json")
    found["block"] = lambda: _read(resnet_block())
    found |= {name: partial(lambda each: _read(light_model(each)), name) for name in NAMES}
    found |= {name: partial(lambda each: _read(transformer(SIZES[each])), name) for name in SIZES}
    return found


def state(proof: Proof) -> str:
    """One word, or two, for a proof."""
    if proof.differences:
        return "WRONG"
    if not proof.holds:
        return "open"
    return "but for" if proof.reserves else "proved"


def proved(make: Make, dtype: str) -> Iterator[str]:
    """The cells of a row: state, seconds and those of the processor, remarks."""
    begin = time.perf_counter()
    try:
        graph = make()
        program = compile_graph(graph, dtype)
        compiled, taken = time.perf_counter(), time.process_time()
        found = prove(program)
    except GraphError as error:
        yield from ("refused", "", str(error))
        return
    yield state(found)
    seconds, taken = time.perf_counter() - compiled, time.process_time() - taken
    yield f"{seconds:.1f} s, {taken:.1f} s of processors ({compiled - begin:.1f} s to compile it)"
    rest = [line for line in lines(found) if not line.startswith("proved: ")]
    yield "; ".join(rest)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("proofs.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="networks; all without a name")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many random networks")
    parser.add_argument("--dtype", default="fp16", help="the format of floats (default: fp16)")
    options = parser.parse_args(arguments)
    known = named()
    chosen = {name: known[name] for name in options.names or (() if options.random else known)}
    for seed in range(options.random):
        chosen[f"random {seed}"] = partial(lambda each: _read(drawn(each)[1]), seed)
    wrong = 0
    for name, make in chosen.items():
        cells = list(proved(make, options.dtype))
        wrong += cells[0] == "WRONG"
        print(f"{name:<24} {'  '.join(cells)}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
