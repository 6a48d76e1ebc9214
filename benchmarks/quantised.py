"""Measure networks that the compiler quantises: cycles compared with FP16, runs of the emulator compared with
onnxruntime.

    python benchmarks/quantised.py [squeezenet] [resnet50]
    python benchmarks/summary.py quantised           puts the table into docs/benchmarks.md

Samples are the network's image in eight degrees of brightness, each with noise of its own. onnxruntime
runs a network that its own quantiser has made from the same samples: bytes with a scale for each output
channel, weights of seven bits. Both run with two threads, in turn; the least processor time of each counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import version_converter

from _report import promise, tabulate
from emulator import load
from schedule import ROOT, compiled, simulated

sys.path.insert(0, str(ROOT / "examples" / "networks"))
from light import NAMES, image, light_model

Inputs = dict[str, np.ndarray[Any, Any]]
GOALS = {"squeezenet": 1.0, "resnet50": 0.65}
"""Cycles, as a multiple of those in FP16."""
PEERS = {"resnet50": 1.5}
"""Processor time of a run, as a multiple of onnxruntime's."""
SAMPLES, OPSET, ROUNDS = 8, 17, 9


def samples_of(inputs: Inputs) -> Inputs:
    """One batch of images that resemble the given one."""
    ((name, value),) = inputs.items()
    rng = np.random.default_rng(0)
    made = [
        value * rng.uniform(0.6, 1.0) + rng.normal(0, value.std() / 10, value.shape) for _ in range(SAMPLES)
    ]
    return {name: np.concatenate(made).astype(np.float32)}


def by_onnxruntime(model: onnx.ModelProto, samples: Inputs, folder: Path) -> Callable[[Inputs], object]:
    """A function that runs the network as onnxruntime has quantised it."""
    import onnxruntime
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rows: Iterator[Inputs] = (
                {name: array[at : at + 1] for name, array in samples.items()} for at in range(SAMPLES)
            )

        def get_next(self) -> Inputs | None:
            return next(self.rows, None)

    source, made = folder / "source.onnx", folder / "quantised.onnx"
    onnx.save(version_converter.convert_version(model, OPSET), folder / "converted.onnx")
    quantization.quant_pre_process(folder / "converted.onnx", source, skip_symbolic_shape=True)
    how = {"per_channel": True, "reduce_range": True, "activation_type": quantization.QuantType.QUInt8}
    quantization.quantize_static(source, made, Reader(), **how)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    session = onnxruntime.InferenceSession(made, options, ["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def in_turns(*sides: Callable[[], object]) -> list[float]:
    """The least processor seconds of each side; before each run that counts, one run fills the caches."""
    least = [float("inf")] * len(sides)
    for _ in range(ROUNDS):
        for at, side in enumerate(sides):
            time.sleep(0.2)
            side()
            start = time.process_time()
            side()
            least[at] = min(least[at], time.process_time() - start)
    return least


def measured(name: str, folder: Path) -> list[str]:
    """The row of a network."""
    model = light_model(name)
    inputs = image(model)
    samples = samples_of(inputs)
    path = folder / f"{name}.onnx"
    onnx.save(model, path)
    np.savez(folder / "samples.npz", **samples)
    floats = simulated(compiled(ROOT, path, "fp16", folder / "fp16"))
    program = compiled(ROOT, path, "int8", folder / "int8", "--calibrate", str(folder / "samples.npz"))
    found = simulated(program)
    ratio, against = found.cycles / floats.cycles, f"{floats.cycles:,.0f} cycles in fp16"
    promise(f"{name}, quantised: cycles", ratio, "times", at_most=GOALS[name], against=against)
    emulated, peer = load(program), by_onnxruntime(model, samples, folder)
    ours, theirs = in_turns(lambda: emulated.run(inputs), lambda: peer(inputs))
    if name in PEERS:
        what, peers = f"{name}, quantised: a warm run", "onnxruntime int8, two threads each, processor time"
        promise(what, ours / theirs, "times", at_most=PEERS[name], against=peers)
    times = [f"{seconds * 1e3:.0f} ms" for seconds in (ours, theirs)]
    return [name, f"{floats.cycles:,.0f}", f"{found.cycles:,.0f}", f"{ratio:.2f}", *times]


def main() -> int:
    """Measure the named networks, by default both."""
    names = sys.argv[1:] or list(NAMES)
    if unknown := [name for name in names if name not in NAMES]:
        print(f"no network {unknown[0]}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    lines = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(measured(name, Path(folder)))
    tabulate(("network", "fp16 cycles", "int8 cycles", "times", "a run of int8", "onnxruntime int8"), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
