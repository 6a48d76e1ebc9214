"""Random networks, compiled, run and compared with onnxruntime."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from network_draws import drawn, inputs_of, problems, setting


def example(rng: Random) -> str:
    """The network of a random seed."""
    seed = rng.randrange(1 << 30)
    net, made = drawn(seed)
    with tempfile.TemporaryDirectory() as folder:
        found = problems(made, inputs_of(net), setting(seed), Path(folder))
    assert not found, f"seed {seed}, {setting(seed)}: {found}"
    return f"{len(net.nodes)} nodes, within the tolerance"
