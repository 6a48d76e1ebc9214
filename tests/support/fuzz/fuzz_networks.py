"""Random networks, and random graphs of many operators, compiled, run and compared with onnxruntime.

Some are drawn for a scratchpad smaller than any chip's. If the compiler refuses one as too large, that is not
a finding and is counted separately. The whole scratchpad is enough for every network.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from compiler.graph import CapacityError
from network_draws import WHOLE_SPM_BYTES, drawn, inputs_of, problems, setting
from paths import ROOT
from random_runs import described, found_problems


def example(rng: Random) -> str:
    """The network of a random seed."""
    seed = rng.randrange(1 << 30)
    net, made = drawn(seed)
    how = setting(seed)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = problems(made, inputs_of(net), how, Path(folder))
        except CapacityError as refusal:
            if how.spm_bytes >= WHOLE_SPM_BYTES:
                raise
            return f"too large: {refusal}"
    assert not found, f"seed {seed}, {how}: {found}"
    return f"{len(net.nodes)} nodes, within the tolerance"


def example_of_operators(rng: Random) -> str:
    """The graph of a random seed; the smallest graph with the same fault is saved with the finding."""
    seed = rng.randrange(1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        found = found_problems(seed, Path(folder))
    assert not found, described(seed, found, ROOT / "build" / "fuzz" / "findings")
    return "as onnxruntime"
