"""Proves many programs in prime fields, and prints a table: ``make prove``.

    python tests/support/networks/proofs.py                 the examples and the networks of the benchmarks
    python tests/support/networks/proofs.py block encoder   some of them
    python tests/support/networks/proofs.py --random 200    as many random networks

A row says "proved"; "but for", with the instructions executed in real numbers; or "open", with the reason.
The exit status is 1 if a program is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import onnx

import tx8
from compiler.driver import Program, compile_graph
from compiler.frontend import load
from compiler.graph import Graph, GraphError
from compiler.tools.verification.findings import Proof, lines
from compiler.tools.verification.prove import Prover
from growing_models import decoder, states
from network_draws import drawn
from paths import ROOT

sys.path.insert(0, str(ROOT / "examples" / "networks"))
from light import NAMES, light_model
from make import resnet_block
from transformers import SIZES, transformer

Make = Callable[[str], Program]
"""Compiles a program in a format of floats."""
_PLACE = re.compile(r"^at [^:]*: ")
"""Sizes and step of a finding."""


def _read(model: onnx.ModelProto) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        return load(path)


def named() -> dict[str, Make]:
    """The examples, the networks of the benchmarks, and decoders whose caches grow."""
    graphs: dict[str, Callable[[], Graph]] = {
        path.stem: partial(load, path)
        for name in ("mlp", "attention", "batchnorm")
        for path in sorted((ROOT / "examples" / name).glob("*.json"))
    }
    graphs["digits"] = partial(load, ROOT / "examples/digits/digits.json")
    graphs["block"] = lambda: _read(resnet_block())
    graphs |= {name: partial(lambda each: _read(light_model(each)), name) for name in NAMES}
    graphs |= {name: partial(lambda each: _read(transformer(SIZES[each])), name) for name in SIZES}
    found = {name: partial(_compiled, make) for name, make in graphs.items()}
    return found | {"growing decoder": _growing}


def _compiled(make: Callable[[], Graph], dtype: str) -> Program:
    return compile_graph(make(), dtype)


def _growing(dtype: str) -> Program:
    """A decoder that masks nothing but the rows after a step's own."""
    model = decoder(new=1, mask="places")
    made = tx8.compile(model, dtype=dtype, dims={"past": (0, 10, 24)}, state=states()).compiled
    assert made is not None
    return made


def state(proofs: Sequence[Proof]) -> str:
    """One word, or two, for the proofs of a program at its sizes."""
    if any(each.differences for each in proofs):
        return "WRONG"
    if not all(each.holds for each in proofs):
        return "open"
    return "but for" if any(each.reserves for each in proofs) else "proved"


def proved(make: Make, dtype: str) -> Iterator[str]:
    """The cells of a row: state, seconds and those of the processor, remarks."""
    begin = time.perf_counter()
    try:
        program = make(dtype)
        compiled, taken = time.perf_counter(), time.process_time()
        prover = Prover(program)
        found = [prover.at(point) for point in prover.points]
    except GraphError as error:
        yield from ("refused", "", str(error))
        return
    yield state(found)
    seconds, taken = time.perf_counter() - compiled, time.process_time() - taken
    yield f"{seconds:.1f} s, {taken:.1f} s of processors ({compiled - begin:.1f} s to compile it)"
    rest = [_PLACE.sub("", line) for each in found for line in lines(each) if "proved: " not in line]
    yield "; ".join(dict.fromkeys(rest))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("proofs.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="networks; all without a name")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many random networks")
    parser.add_argument("--dtype", default="fp16", help="the format of floats (default: fp16)")
    options = parser.parse_args(arguments)
    known = named()
    chosen = {name: known[name] for name in options.names or (() if options.random else known)}
    for seed in range(options.random):
        draw = partial(lambda each: _read(drawn(each)[1]), seed)
        chosen[f"random {seed}"] = partial(_compiled, draw)
    wrong = 0
    for name, make in chosen.items():
        cells = list(proved(make, options.dtype))
        wrong += cells[0] == "WRONG"
        print(f"{name:<24} {'  '.join(cells)}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
