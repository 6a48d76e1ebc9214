"""Random small networks on the emulated chip, compared with onnxruntime; ``network_draws.py`` makes more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from network_draws import SEARCHES, TILES, drawn, inputs_of, problems, setting
from onnx_models import model

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_network(seed: int, tmp_path: Path) -> None:
    net, made = drawn(seed)
    found = problems(made, inputs_of(net), setting(seed), tmp_path)
    assert not found, (
        f"{setting(seed)}; python tests/support/networks/network_draws.py {seed} {seed + 1}: {found}"
    )


def test_the_networks_are_of_many_kinds() -> None:
    """Every setting and most operators occur; some values have two users, and some outputs have users."""
    networks = [drawn(seed)[0] for seed in SEEDS]
    operators = {node.op_type for net in networks for node in net.nodes}
    assert {"Conv", "Gemm", "MatMul", "Concat", "Split", "Softmax", "MaxPool", "Transpose"} <= operators
    settings = [setting(seed) for seed in SEEDS]
    assert {how.search for how in settings} == set(SEARCHES)
    assert {how.tiles for how in settings} == set(TILES)


def test_a_network_is_the_same_every_time() -> None:
    first, second = (drawn(3) for _ in range(2))
    assert first[1].SerializeToString() == second[1].SerializeToString()
    assert drawn(4)[1].SerializeToString() != first[1].SerializeToString()


def test_a_wrong_output_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ir_version=10)
    given = {"x": np.ones((2, 3), np.float32)}
    assert problems(made, given, setting(0), tmp_path) == []
    monkeypatch.setattr("network_draws.expected", lambda *_: {"y": np.full((2, 3), 1.25, np.float32)})
    (found,) = problems(made, given, setting(0), tmp_path)
    assert found.startswith("y [2, 3]: ")


@pytest.mark.parametrize(("off", "right"), [(1e-7, True), (0.1, False)])
def test_rounding_errors_alone_are_compared_with_the_other_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: float, right: bool
) -> None:
    """An output that is 0 but for rounding errors has no digits to compare."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Sub", ["x", "x"], ["z"])]
    made = model(nodes, {"x": (2, 3)}, ("y", "z"), ir_version=10)
    outputs = {"y": np.ones((2, 3), np.float32), "z": np.full((2, 3), off, np.float32)}
    monkeypatch.setattr("network_draws.expected", lambda *_: outputs)
    found = problems(made, {"x": outputs["y"]}, setting(0), tmp_path)
    assert (found == []) is right, found
