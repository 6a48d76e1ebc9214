"""Functions of JAX: arguments and results are the trees with which they were traced; skipped without JAX."""

from __future__ import annotations

import builtins
import functools
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tx8

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is an extra of its own: make jax"
)
pytestmark = pytest.mark.filterwarnings("ignore")  # JAX warns of its own deprecations

RNG = np.random.default_rng(2)
X = RNG.standard_normal((3, 8)).astype(np.float32)


def parameters() -> dict[str, Any]:
    """Two layers, a factor, and unused arguments: an array, None, an array without elements."""
    layers = [
        (RNG.standard_normal((8, 8)).astype(np.float32), RNG.standard_normal(8).astype(np.float32)),
        (RNG.standard_normal((8, 4)).astype(np.float32), RNG.standard_normal(4).astype(np.float32)),
    ]
    extra = {"unused": np.ones(2, np.float32), "none": None, "empty": np.zeros((0, 2), np.float32)}
    return {"layers": layers, "factor": np.float32(0.5), **extra}


def perceptron(p: Any, x: Any) -> Any:
    import jax.numpy as jnp

    for weights, bias in p["layers"]:
        x = jnp.tanh(x @ weights + bias)
    return (x * p["factor"]).sum()


def gradients(p: Any, x: Any) -> Any:
    """Gradients of all parameters; the second layer's are computed first."""
    import jax

    used = {"layers": p["layers"], "factor": p["factor"]}
    return jax.grad(perceptron, argnums=(0, 1))(used, x)


def several(p: Any, x: Any) -> Any:
    """Equal values, an unchanged argument, a part without elements, and nothing, in containers."""
    relu = x.clip(0)
    return {"z": None, "b": (relu, x, relu), "a": [x[:0], p["factor"] * 2]}


def assert_same(found: Any, wanted: Any) -> None:
    import jax

    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@needs_jax
@pytest.mark.parametrize("function", [gradients, several], ids=lambda each: each.__name__)
def test_arguments_and_results_are_those_of_the_function(function: Callable[..., Any]) -> None:
    import jax

    p = parameters()
    program = tx8.compile(jax.jit(function), (p, X))
    run = program.run(p, X)
    assert_same(run.result, function(p, X))
    other = jax.tree.map(lambda array: array * 0.5, p)
    assert_same(program.run(other, X).result, function(other, X))
    by_position = [run[at] for at in range(len(run))]
    for one, leaf in zip(by_position, jax.tree.leaves(function(p, X)), strict=True):
        np.testing.assert_allclose(one, leaf, rtol=1e-4, atol=1e-4)


@needs_jax
def test_inputs_still_have_names() -> None:
    import jax

    p = parameters()
    program = tx8.compile(jax.jit(gradients), (p, X))
    names = [buffer.name for buffer in program.inputs]
    assert names == ["p_factor", "p_layers_0_0", "p_layers_0_1", "p_layers_1_0", "p_layers_1_1", "x"]
    wanted = program.run(p, X)
    leaves = [p["factor"], *(array for layer in p["layers"] for array in layer), X]
    given = dict(zip(names, leaves, strict=True))
    for run in (program.run(*leaves), program.run(**given), program.run(given)):
        assert_same(run.result, wanted.result)
    with tx8.Session(program) as session:
        for found in (session.run(p, X), session.run(given)):
            assert [*found] == [*wanted.outputs]
            assert all(np.array_equal(found[name], wanted[name]) for name in found)


@needs_jax
@pytest.mark.parametrize(
    "form",
    [
        lambda jax, f, *given: f,
        lambda jax, f, *given: jax.jit(f),
        lambda jax, f, *given: jax.jit(f, keep_unused=True),
        lambda jax, f, *given: jax.jit(f).trace(*given),
        lambda jax, f, *given: jax.jit(f).lower(*given),
        lambda jax, f, *given: jax.export.export(jax.jit(f))(*given),
        lambda jax, f, *given: functools.partial(f),
    ],
    ids=["plain", "jit", "unused kept", "traced", "lowered", "exported", "partial"],
)
def test_every_form_of_a_function_has_its_trees(form: Callable[..., Any]) -> None:
    import jax

    p = parameters()
    program = tx8.compile(form(jax, several, p, X), (p, X))
    assert_same(program.run(p, X).result, several(p, X))


@needs_jax
def test_on_several_chips() -> None:
    def product(p: Any, x: Any) -> Any:
        return {"sum": x + x, "product": x @ p["w"]}

    given = {"w": RNG.standard_normal((8, 4)).astype(np.float32)}, X[:2]
    program = tx8.compile(product, given, chips=(2, 1), parallel="sp=2")
    assert_same(program.run(*given, timed=False).result, product(*given))


@needs_jax
def test_other_trees_are_refused_in_one_line() -> None:
    p = parameters()
    program = tx8.compile(gradients, (p, X))
    wanted = "; expected the traced trees, (({'empty': *, 'factor': *, 'layers': [(*, *), (*, *)], "
    for given in ((p,), ({"w": X}, X), (p, (X,)), (p["layers"], X)):
        with pytest.raises(tx8.Error) as error:
            program.run(*given)
        assert str(error.value).startswith("the arguments are ((") and wanted in str(error.value)
        assert str(error.value).endswith("or inputs: " + ", ".join(b.name for b in program.inputs))
    with pytest.raises(tx8.Error, match="the arguments are not a tree of JAX: "):
        program.run({1: X, "x": X})
    with pytest.raises(tx8.Error, match="the program has no input 'y'"):
        program.run({"y": X, "x": X}, threads=1)


@needs_jax
@pytest.mark.parametrize(
    ("model", "examples", "message"),
    [
        (lambda x: x + y, (X,), "<lambda>: JAX cannot trace it with these examples: name 'y' is not defined"),  # noqa: F821
        (lambda x: x, (), "<lambda>: JAX cannot trace it without examples of its arguments: "),
        (lambda x: x, X, "examples are ndarray; expected a tuple of arguments: (x,)"),
        (len, (X,), "a model of type builtin_function_or_method; expected a path"),
    ],
)
def test_what_is_no_function_of_jax(model: Any, examples: Any, message: str) -> None:
    with pytest.raises(tx8.Error) as error:
        tx8.compile(model, examples)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@needs_jax
def test_other_models_have_no_trees() -> None:
    graph = tx8.GraphBuilder("pair")
    x = graph.input("x", "float32", (3, 8))
    graph.output(graph.Neg(x), "n")
    graph.output(graph.Relu(x), "r")
    run = tx8.compile(graph).run(X)
    assert np.array_equal(run.result[0], -X) and np.array_equal(run.result[1], np.maximum(X, 0))


def test_without_jax_a_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *arguments: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "jax":
            raise ImportError(name=name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(tx8.Error, match=r"^perceptron: tracing a function needs JAX: pip install jax"):
        tx8.compile(perceptron, (X,))
