"""Draws random small networks, compiles and runs them, and compares with onnxruntime.

python tests/support/networks/network_draws.py 200 260        the networks of these seeds
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto

import emulator
from asm.image import read_image, write_image
from buffer_bounds import cycles_without_data
from compiler.driver import Program, compile_graph
from compiler.evaluation.tolerance import judge, limits
from compiler.graph import Array
from compiler_harness import small_machine
from network_steps import CHANNELS, COMMON, HEAD, IMAGES, LARGEST, ROWS, Network, Shape
from onnx_models import imported
from onnx_oracle import onnxruntime


def drawn(seed: int) -> tuple[Network, ModelProto]:
    """The network of a seed and its model; three of five are of images."""
    net = Network(np.random.default_rng([77, seed]))
    images = seed % 5 < 3
    for at in range(net.whole(1, 2)):
        if images:
            shape: Shape = (net.one_of(1, 1, 2), net.one_of(*CHANNELS), net.whole(3, 17), net.whole(3, 17))
        else:
            shape = tuple(net.one_of(*CHANNELS) for _ in range(net.one_of(2, 2, 3)))
        while np.prod(shape) > LARGEST:
            shape = tuple((size + 1) // 2 for size in shape)
        net.inputs[f"x{at}"] = net.values[f"x{at}"] = shape
    steps = net.whole(3, 10)
    for _ in range(100):
        if len(net.nodes) >= steps:
            break
        net.one_of(*COMMON, *(IMAGES if images else ROWS))(net)
    if images and net.maybe(0.4):
        for step in HEAD:
            step(net)
    return net, net.model()


TILES = (1, 3, 16)
SEARCHES = ("off", "fast")
WHOLE_SPM_BYTES = 0x300000
"""The scratchpad of the TX81, into which every network that is drawn fits."""
_SPM_BYTES = (0x8000, 0x20000, WHOLE_SPM_BYTES)


@dataclass(frozen=True)
class Setting:
    """The options with which a network is compiled."""

    dtype: str
    tiles: int
    spm_bytes: int
    search: str


def setting(seed: int) -> Setting:
    """Return the options for the network of a seed."""
    rng = np.random.default_rng([78, seed])
    return Setting(
        str(rng.choice(["fp16", "fp32", "fp16", "fp32", "bf16"])),
        int(rng.choice(TILES)),
        int(rng.choice(_SPM_BYTES)),
        str(rng.choice(SEARCHES)),
    )


def inputs_of(net: Network) -> dict[str, Array]:
    return {
        name: (np.clip(np.round(net.rng.standard_normal(shape) * 16), -64, 64) / 16).astype(np.float32)
        for name, shape in net.inputs.items()
    }


def expected(made: ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """Every output by onnxruntime, in FP32."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [item.name for item in made.graph.output]
    return dict(zip(names, map(np.asarray, session.run(names, inputs)), strict=True))


def problems(made: ModelProto, inputs: dict[str, Array], how: Setting, folder: Path) -> list[str]:
    """Return mistakes: outputs, hazards, outputs that depend on host threads, cycles that depend on data."""
    compiled = compiled_network(made, how, folder)
    program = emulator.Program(read_image(write_image(compiled.image), "prog.bin"), compiled.machine)
    system = program.start(inputs, threads=2, timed=True)
    system.run()
    again = program.results(system)
    got = program.run(inputs, strict=True)
    found = [hazard.text for hazard in program.hazards]
    cycles = cycles_without_data(program, inputs)
    if cycles not in (None, system.cycles):
        found.append(f"{cycles} cycles without data; {system.cycles} with it")
    outputs = expected(made, inputs)
    if [*got] != [*outputs]:
        found.append(f"outputs are {', '.join(got)}; expected {', '.join(outputs)}")
    largest = max(float(np.abs(want).max(initial=0.0)) for want in outputs.values())
    for name, want in outputs.items():
        if is_noise(want, largest) and got[name].shape == want.shape:
            share = limits("model", how.dtype, "float32").of_largest or 0.0
            want = np.where(np.abs(got[name]) < share * largest, got[name], want)
        verdict = judge("model", how.dtype, got[name], want)
        found += [] if verdict.ok else [f"{name} {list(want.shape)}: {verdict.text}"]
        if got[name].tobytes() != again[name].tobytes():
            found.append(f"{name}: other bytes with two host threads")
    return found


def is_noise(want: Array, largest: float) -> bool:
    """Return True if an output is only rounding errors, such as the mean of normalized values, which is 0.

    ``largest``: of all outputs.
    """
    return want.dtype.kind == "f" and 0.0 < float(np.abs(want).max(initial=0.0)) < 2.0**-20 * largest


def compiled_network(made: ModelProto, how: Setting, folder: Path) -> Program:
    machine = small_machine(how.spm_bytes)
    return compile_graph(imported(made, folder), how.dtype, how.tiles, machine, search=how.search)


def main(first: int, last: int) -> int:
    """Run the networks of the seeds first .. last - 1; print a line for each wrong one."""
    wrong = 0
    for seed in range(first, last):
        net, made = drawn(seed)
        how = setting(seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                found = problems(made, inputs_of(net), how, Path(folder))
            except Exception as error:  # the other seeds are still to be tried
                found = [f"{type(error).__name__}: {error}"]
        wrong += bool(found)
        for line in found:
            print(f"{seed} {how}: {line}", flush=True)
    print(f"{last - first} networks, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), int(sys.argv[2])))
