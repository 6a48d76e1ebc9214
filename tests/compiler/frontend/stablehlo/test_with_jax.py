"""Functions of JAX itself, and the forms that only jaxlib reads; skipped where JAX is not installed.

``make jax`` installs it and runs this folder.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tx8
from compiler.evaluation.reference import run_reference
from compiler.frontend import load
from compiler.frontend.stablehlo import from_jax
from compiler.graph import GraphError
from stablehlo_cases import FOLDER, fed, network_arrays

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("jax") is None, reason="JAX is an extra of its own: make jax"
    ),
    pytest.mark.filterwarnings("ignore"),  # JAX warns of its own deprecations
]

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(1, -1, 8, dtype=np.float32).reshape(4, 2)


def network() -> Any:
    import jax

    return jax.jit(lambda x, w: {"probabilities": jax.nn.softmax(x @ w["dense"]), "sum": x.sum()})


def test_a_function_of_jit_is_compiled() -> None:
    jitted = network()
    program = tx8.compile(jitted, (X, {"dense": W}))
    assert [buffer.name for buffer in program.inputs] == ["x", "w_dense"]
    expected = jitted(X, {"dense": W})
    run = program.run(X, W)
    assert np.abs(run["result_probabilities"] - expected["probabilities"]).max() < 1e-5
    assert abs(float(np.asarray(run["result_sum"])) - float(expected["sum"])) < 1e-5


def test_every_form_of_a_module_is_the_same_graph(tmp_path: Path) -> None:
    import jax

    jitted = network()
    lowered = jitted.lower(X, {"dense": W})
    exported = jax.export.export(jitted)(X, {"dense": W})
    module = lowered.compiler_ir("stablehlo")
    contents = {
        "pretty": lowered.as_text().encode(),
        "located": lowered.as_text(debug_info=True).encode(),
        "generic": module.operation.get_asm(print_generic_op_form=True).encode(),
        "generic located": module.operation.get_asm(
            print_generic_op_form=True, enable_debug_info=True
        ).encode(),
        "artifact": exported.mlir_module_serialized,
    }
    found = []
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        found.append(load(tmp_path / name))
    found += [from_jax(jitted, (X, {"dense": W})), from_jax(lowered, ()), from_jax(exported, ())]
    assert len({tuple(node.op for node in graph.nodes) for graph in found}) == 1
    assert {tuple(tensor.name for tensor in graph.outputs) for graph in found} == {
        ("result_probabilities", "result_sum")
    }


def test_networks_traced_again_give_the_results_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the installed JAX, which may write other texts."""
    import jax

    monkeypatch.syspath_prepend(str(FOLDER))
    import networks

    for name, make in networks.NETWORKS.items():
        function, arguments = make()
        graph = from_jax(jax.jit(function), arguments)
        given, expected = network_arrays(name)
        found = run_reference(graph, fed(graph, given)).values()
        limit = 2e-3 if name == "mixture" else 2e-5
        for a, b in zip(found, expected, strict=True):
            assert np.abs(a.astype(np.float64) - b).max() < limit, name


def test_a_refusal_says_where_in_the_source() -> None:
    import jax

    with pytest.raises(GraphError, match=r"stablehlo\.popcnt .*/population_count, .*test_with_jax\.py:\d+\)"):
        from_jax(jax.jit(lambda x: jax.lax.population_count(x)), (X.astype(np.int32),))


def test_a_loop_without_known_bound() -> None:
    import jax

    jitted = jax.jit(lambda x, n: jax.lax.fori_loop(0, n, lambda i, c: c * 2, x))
    with pytest.raises(GraphError, match="its condition is not known when compiling"):
        from_jax(jitted, (X, np.int32(3)))


def test_free_shapes_are_refused() -> None:
    import jax

    shape = jax.export.symbolic_shape("n, 4")
    exported = jax.export.export(network())(
        jax.ShapeDtypeStruct(shape, np.float32), {"dense": jax.ShapeDtypeStruct((4, 2), np.float32)}
    )
    with pytest.raises(GraphError, match="has a dynamic dimension; shapes must be static"):
        from_jax(exported, ())


def test_wrong_examples_are_one_line() -> None:
    import jax

    with pytest.raises(tx8.Error, match="JAX cannot trace it with these examples"):
        tx8.compile(network(), (X, {"dense": X}))
    with pytest.raises(tx8.Error, match=r"examples are ndarray; expected a tuple of arguments: \(x,\)"):
        tx8.compile(network(), X)
    with pytest.raises(tx8.Error, match=r"of JAX; expected a function, what jax\.jit returns, or"):
        tx8.compile(jax.numpy.zeros(3))


@pytest.mark.parametrize(
    "content", [b"module @m {\n  stablehlo.abs\n}\n", b"ML\xefR\rStableHLO_v1.9.0\x00junk"]
)
def test_a_damaged_module_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"net\.mlir: not a module of StableHLO: ") as caught:
        load(path)
    assert len(caught.value.messages) == 1
