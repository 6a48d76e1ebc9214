"""Random networks, compiled, run and compared with onnxruntime.

Some are drawn for a scratchpad that is smaller than that of any chip. One that the compiler refuses as too
large for it is not a finding; it is counted apart. The whole scratchpad is enough for every network.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from compiler.graph import CapacityError
from network_draws import WHOLE_SPM_BYTES, drawn, inputs_of, problems, setting


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
