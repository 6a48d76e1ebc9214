"""Proves many programs in prime fields, and prints a table: ``make prove``.

    python tests/support/networks/proofs.py                 examples, networks of benchmarks and zoo, of bytes
                                                            and of ranges, several chips, kernels
    python tests/support/networks/proofs.py block encoder   some of them
    python tests/support/networks/proofs.py --random 200    as many random networks

With ``--page docs/proving.md`` the rows go into the table there; random networks have one row, and so have
kernels. A program of a range is proved at five sizes, a kernel in each format of its texts. Networks of the
zoo whose package is missing are left out.
A row says "proved"; "but for", with the instructions executed in real numbers; or "open", with the reason.
The exit status is 1 if a program is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx

import range_models
import tx8
from chip_nets import on_chips
from compiler.driver import Program, compile_graph
from compiler.frontend import load
from compiler.graph import Graph, GraphError
from compiler.tools.verification.findings import Proof, lines
from compiler.tools.verification.prove import STEPS, Prover
from documents import with_region
from expert_nets import one_by_one
from float_nets import small_cnn
from growing_models import decoder, states
from kernel_graphs import CASES, proof_of
from network_draws import drawn
from paths import ROOT
from quantised_nets import bottlenecks, byte_encoder, byte_mlp, fires, matrices, products, residual
from sharded_nets import mlp, normalized_first
from stage_nets import layers
from token_nets import encoder

sys.path.insert(0, str(ROOT / "examples" / "networks"))
sys.path.insert(0, str(ROOT / "examples" / "zoo"))
from light import NAMES, light_model
from make import resnet_block
from task import MissingPackage, Task
from transformers import SIZES, transformer
from zoo import TASKS

Make = Callable[[str], Program]
"""Compiles a program in a format of floats."""
_RANDOM, _KERNEL = "random ", "kernel "
_TOGETHER = {_RANDOM: "random networks", _KERNEL: "kernels of Triton"}
"""Rows of the table that several proofs share, by the beginnings of their names."""
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
    return found | _of_bytes() | _on_chips()


def of_the_zoo() -> dict[str, Make]:
    """The networks of the zoo that are no examples, nor networks of the benchmarks; some need a package."""
    tasks = {name: make for name, make in TASKS.items() if name not in (*NAMES, "digits")}
    return {f"zoo: {name}": partial(_of_task, make) for name, make in tasks.items()}


def _of_task(make: Callable[[], Task], dtype: str) -> Program:
    task = make()
    return _program(task.model, dtype, shapes=task.shapes, constants=task.constants)


def of_ranges() -> dict[str, Make]:
    """Programs of any size in a range: rows, texts, lines of text, pictures, steps with states."""
    given: dict[str, tuple[onnx.ModelProto, dict[str, tuple[int, int, int]], dict[str, str]]] = {
        "rows of any size": (range_models.perceptron(), {"rows": (1, 64, 400)}, {}),
        "texts of any size": (range_models.encoder(), {"batch": (1, 1, 3), "seq": (1, 32, 160)}, {}),
        "lines of text of any size": (
            range_models.text_line(),
            {"batch": (1, 1, 4), "width": (16, 160, 640)},
            {},
        ),
        "pictures of any size": (
            range_models.picture(),
            {"batch": (1, 1, 2), "height": (8, 32, 40), "width": (8, 32, 48)},
            {},
        ),
        "masked attention of any size": (
            range_models.masked_attention("compared positions"),
            {"batch": (1, 1, 2), "seq": (1, 20, 90)},
            {},
        ),
        "recurrent cells of any size": (
            range_models.recurrent_cell(),
            {"streams": (1, 8, 300)},
            {"h": "new_h"},
        ),
        "decoder steps of any size": (
            range_models.decoder_step(width=64),
            {"new": (1, 3, 16)},
            {"keys": "new_keys", "values": "new_values"},
        ),
        "growing decoder": (decoder(new=1, mask="places"), {"past": (0, 10, 24)}, states()),
    }
    return {name: partial(_ranged, *each) for name, each in given.items()}


NUMBERS: dict[str, Callable[[Mapping[str, int]], dict[str, Any]]] = {
    "texts of any size": lambda at: {
        "mask": np.tile(np.arange(at["seq"]) < max(1, at["seq"] - 1), (at["batch"], 1)).astype(np.int64)
    },
    "decoder steps of any size": lambda at: {"at": np.array([24 - at["new"]])},
}
"""Integers of networks whose random ones would hide all keys, at sizes."""


def _ranged(
    model: onnx.ModelProto, dims: Mapping[str, tuple[int, int, int]], state: Mapping[str, str], dtype: str
) -> Program:
    return _program(model, dtype, dims=dims, state=state)


def _program(model: Any, dtype: str, **options: Any) -> Program:
    made = tx8.compile(model, dtype=dtype, **options).compiled
    assert made is not None
    return made


def _of_bytes() -> dict[str, Make]:
    """Networks with bytes inside: exact integers, and those that may be one off."""
    made: dict[str, Callable[[], onnx.ModelProto]] = {
        "convolutions of bytes": lambda: products(1, "int8")[0],
        "matrices of bytes": lambda: matrices(0, "uint8")[0],
        "residual of bytes": lambda: residual(3)[0],
        "bottlenecks of bytes": lambda: bottlenecks(2, 128, 64, 14, 14, 2)[0],
        "fires of bytes": lambda: fires(2, 16, 12, 12, True)[0],
        "mlp of bytes": lambda: byte_mlp(1, "uint8", 64, 128)[0],
        "encoder of bytes": lambda: byte_encoder(1, "uint8")[0],
    }
    return {
        f"{name}, {integers}": partial(_with_integers, make, integers)
        for name, make in made.items()
        for integers in ("exact", "near")
    }


def _with_integers(make: Callable[[], onnx.ModelProto], integers: str, dtype: str) -> Program:
    return _program(make(), dtype, integers=integers)


def _on_chips() -> dict[str, Make]:
    """The forms of work that several chips share."""
    forms: tuple[tuple[str, Callable[[], Graph], tuple[int, int], str], ...] = (
        ("data", lambda: small_cnn(batch=4), (2, 1), "dp=2"),
        ("tensors", lambda: mlp(rows=16, columns=128), (2, 1), "tp=2"),
        ("tensors of attention", normalized_first, (2, 1), "tp=2"),
        ("rows", encoder, (2, 1), "sp=2"),
        ("experts", lambda: one_by_one(rows=8, columns=32, inner=32), (2, 1), "ep=2"),
        ("stages", lambda: layers(3, 4, 8, 64), (2, 1), "pp=2"),
        ("data and tensors", lambda: layers(1, 4, 8, 64), (2, 2), "dp=2,tp=2"),
        ("rows and tensors", normalized_first, (2, 2), "sp=2,tp=2"),
    )
    return {
        f"chips that share {name}": lambda dtype, made=made, mesh=mesh, degrees=degrees: on_chips(
            made(), *mesh, degrees, dtype
        )
        for name, made, mesh, degrees in forms
    }


def _compiled(make: Callable[[], Graph], dtype: str) -> Program:
    return compile_graph(make(), dtype)


def points(prover: Prover) -> list[dict[str, int]]:
    """Five sizes of a range: those of ``--prove``, the usual ones, and odd ones above them."""
    source = prover.program.ranges
    if source is None:
        return prover.points
    ranges = source.ranges
    above = {each.name: min((each.usual + each.most) // 2 | 1, each.most) for each in ranges.dimensions}
    found = [*prover.points, ranges.point_of({}), ranges.point_of(above)]
    return [point for at, point in enumerate(found) if point not in found[:at]]


def state(proofs: Sequence[Proof]) -> str:
    """One word, or two, for the proofs of a program at its sizes."""
    if any(each.differences for each in proofs):
        return "WRONG"
    if not all(each.holds for each in proofs):
        return "open"
    return "but for" if any(each.reserves for each in proofs) else "proved"


class Row(NamedTuple):
    """What a proof of a network has found, and what it took."""

    state: str
    seconds: float
    processors: float
    compiling: float
    remarks: str

    def __str__(self) -> str:
        times = f"{self.seconds:.1f} s, {self.processors:.1f} s of processors"
        return f"{self.state}  {times} ({self.compiling:.1f} s to compile it)  {self.remarks}"


def proved(
    make: Make, dtype: str, numbers: Callable[[Mapping[str, int]], dict[str, Any]] | None = None
) -> Row:
    """The row of a network; ``numbers`` are its integers at sizes, random ones without it."""
    begin = time.perf_counter()
    try:
        program = make(dtype)
        compiled, taken = time.perf_counter(), time.process_time()
        prover = Prover(program)
        steps = [(point, STEPS if numbers is None else [numbers(point)] * STEPS) for point in points(prover)]
        found = [prover.at(*each) for each in steps]
    except GraphError as error:
        return Row("refused", 0.0, 0.0, 0.0, str(error))
    return _row(found, time.perf_counter() - compiled, time.process_time() - taken, compiled - begin)


def kernel_proved(name: str, fmt: str) -> Row:
    """The row of a launch of a kernel of Triton."""
    begin, taken = time.perf_counter(), time.process_time()
    found = proof_of(name, fmt)
    return _row([found], time.perf_counter() - begin, time.process_time() - taken, 0.0)


def _row(found: Sequence[Proof], seconds: float, processors: float, compiling: float) -> Row:
    rest = [_PLACE.sub("", line) for each in found for line in lines(each) if "proved: " not in line]
    return Row(state(found), seconds, processors, compiling, "; ".join(dict.fromkeys(rest)))


def with_rows(table: str, rows: Mapping[str, Row]) -> str:
    """A table with rows in the place of older ones of the same networks."""
    found = {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()[2:]}
    found |= {name: f"| {name} | {row.state} | {row.processors:.0f} |" for name, row in _summed(rows).items()}
    return "\n".join(["| network | | seconds |", "| --- | --- | --- |", *found.values()])


def _summed(rows: Mapping[str, Row]) -> dict[str, Row]:
    """The rows, with one for all random networks, and one for all kernels."""
    found = {name: row for name, row in rows.items() if not name.startswith(tuple(_TOGETHER))}
    for beginning, what in _TOGETHER.items():
        some = [row for name, row in rows.items() if name.startswith(beginning)]
        counts = Counter(row.state for row in some)
        states = ", ".join(f"{count} {word}" for word, count in counts.most_common())
        if some:
            found[f"{len(some)} {what}"] = Row(states, 0.0, sum(row.processors for row in some), 0.0, "")
    return found


def chosen(names: Sequence[str], random: int, dtype: str) -> dict[str, Callable[[], Row]]:
    """Return the programs to prove, by name: the named ones, all, or random networks."""
    known = {**named(), **of_the_zoo(), **of_ranges()}
    found = {name: partial(proved, make, dtype, NUMBERS.get(name)) for name, make in known.items()}
    found |= {f"{_KERNEL}{name} {fmt}": partial(kernel_proved, name, fmt) for name, fmt in CASES}
    if names == [_KERNEL.strip()]:
        found = {name: each for name, each in found.items() if name.startswith(_KERNEL)}
    elif names or random:
        found = {name: found[name] for name in names}
    for seed in range(random):
        draw = partial(lambda each: _read(drawn(each)[1]), seed)
        found[f"{_RANDOM}{seed}"] = partial(proved, partial(_compiled, draw), dtype)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("proofs.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="networks, or kernel for all kernels; all without a name")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="so many random networks")
    parser.add_argument("--dtype", default="fp16", help="the format of floats (default: fp16)")
    parser.add_argument("--page", type=Path, help="a page with a marked region for the table")
    options = parser.parse_args(arguments)
    rows = dict[str, Row]()
    for name, prove in chosen(options.names, options.random, options.dtype).items():
        try:
            rows[name] = prove()
        except MissingPackage as missing:
            print(f"{name} is left out: {missing}")
            continue
        print(f"{name:<32} {rows[name]}", flush=True)
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        text = with_region(text, "proofs", lambda table: with_rows(table, rows))
        options.page.write_text(text, encoding="utf-8")
    return int(any(row.state == "WRONG" for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
