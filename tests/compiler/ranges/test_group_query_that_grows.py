"""GroupQueryAttention whose cache grows: sessions against onnxruntime, step by step from an empty cache."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tx8
from compiler.graph import GraphError
from emulator.tile.fault import Fault
from growing_models import LONGEST, TOTAL, WORDS, Expected, group_query_decoder, states, step_inputs
from range_models import ModelWriter

DIMS = {"new": (1, 1, 8), "past": (0, 10, 24)}
HEADS, GROUPS, SIZE = 4, 2, 16


def check_steps(made: tx8.Program, model: Any, counts: list[int], tolerance: float) -> None:
    """Assert that steps of these numbers of words give onnxruntime's results and caches."""
    assert all("writes new elements" in line for line in made.compiled.states)
    expected, rng, past = Expected(model), np.random.default_rng(0), 0
    with tx8.Session(made) as session:
        for count in counts:
            given = step_inputs(rng.integers(0, WORDS, count), past)
            wanted = expected.step(**given)
            (found,) = session.run({name: given[name] for name in session._steps.inputs(None)}).values()
            assert np.abs(found - wanted).max() < tolerance
            past += count
            for name, values in session.state.items():
                assert values.shape == expected.cache[name].shape
                assert np.abs(values - expected.cache[name]).max() < 5 * tolerance


@pytest.mark.long
@pytest.mark.parametrize(("rotary", "dtype"), [*product([True, False], ["fp32", "fp16"])])
def test_decoders(rotary: bool, dtype: str) -> None:
    model = group_query_decoder(2, rotary=rotary)
    made = tx8.compile(model, dtype=dtype, dims=DIMS, state=states(2))
    check_steps(made, model, [3, 1, 8, 4, 1], 1e-5 if dtype == "fp32" else 1e-3)


@pytest.mark.long
def test_a_mask_that_hides_words_stops_the_program() -> None:
    """Otherwise seqlens_k is less than the number of all rows, and onnxruntime's cache would lack some."""
    made = tx8.compile(group_query_decoder(), dtype="fp16", dims=DIMS, state=states())
    given = step_inputs(np.arange(4), 0)
    given["attention_mask"][0, :2] = 0
    with tx8.Session(made) as session:
        inputs = {name: given[name] for name in session._steps.inputs(None)}
        with pytest.raises(Fault, match="2 is how far seqlens_k is from past \\+ new - 1, the last row"):
            session.run(inputs)
        assert session.steps == 0


@pytest.mark.long
@pytest.mark.parametrize("new", [1, 3, 8])
def test_steps_of_a_known_number_of_words(new: int) -> None:
    model = group_query_decoder(new=new)
    made = tx8.compile(model, dtype="fp32", dims={"past": DIMS["past"]}, state=states())
    check_steps(made, model, [new] * 3, 1e-5)


# --- the operator alone ----------------------------------------------------------------------------------

PASTS, PRESENTS = ("past_key_values.key", "past_key_values.value"), ("present.key", "present.value")
CACHES = dict(zip(PASTS, PRESENTS, strict=True))


def step(
    batch: int = 1,
    packed: bool = False,
    bias: bool = False,
    positions: bool = False,
    columns: bool = False,
    rows: str = "new",
    **attrs: Any,
) -> Any:
    """A model of one node; ``columns``: seqlens_k is [batch, 1]."""
    w, total = ModelWriter(3), f"past + {rows}"
    kind, widths = TensorProto.FLOAT, {"q": HEADS, "k": GROUPS, "v": GROUPS}
    if packed:
        widths = {"q": HEADS + 2 * GROUPS}
    inputs: Any = {name: (kind, [batch, rows, heads * SIZE]) for name, heads in widths.items()}
    inputs |= dict.fromkeys(PASTS, (kind, [batch, GROUPS, "past", SIZE]))
    inputs["last"] = TensorProto.INT32, [batch, 1] if columns else [batch]
    inputs |= {"position_ids": (TensorProto.INT64, [batch, rows])} if positions else {}
    inputs |= {"bias": (kind, [1, HEADS, rows, TOTAL])} if bias else {}
    sizes = [w.add("Shape", name, start=at, end=at + 1) for name, at in (("q", 1), (PASTS[0], 2))]
    length = w.add("Cast", w.add("Reshape", w.add("Add", *sizes), w.integers()), to=TensorProto.INT32)
    turned = range(2 if attrs.get("do_rotary") else 0)
    tables = [w.constant(w.normal(LONGEST, SIZE // 2)) for _ in turned] or ["", ""]
    operands = ["q", *("" if packed else name for name in "kv"), *PASTS, "last", length, *tables]
    operands += ["position_ids" if positions else "", "bias" if bias else ""]
    while not operands[-1]:
        operands.pop()
    made = helper.make_node(
        "GroupQueryAttention", operands, ["y", *PRESENTS], "attend", domain="com.microsoft",
        num_heads=HEADS, kv_num_heads=GROUPS, **attrs,
    )  # fmt: skip
    w.nodes.append(made)
    outputs: Any = {"y": (kind, [batch, rows, HEADS * SIZE])}
    outputs |= dict.fromkeys(PRESENTS, (kind, [batch, GROUPS, total, SIZE]))
    model = w.model(inputs, outputs)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


VARIANTS: dict[str, dict[str, Any]] = {
    "rotary": {"do_rotary": 1},
    "side by side": {"packed": True, "do_rotary": 1},
    "neighbours": {"do_rotary": 1, "rotary_interleaved": 1},
    "window": {"local_window_size": 3},
    "cap": {"softcap": 2.0, "scale": 0.4},
    "bias": {"bias": True},
    "positions": {"positions": True, "do_rotary": 1},
    "two sequences": {"batch": 2, "columns": True},
}


def inputs_of(session: Any, new: int, past: int, rng: Any) -> dict[str, Any]:
    """Random operands of a step, of the shapes that onnxruntime says, and lengths that are true."""
    found: dict[str, Any] = {}
    for info in session.get_inputs():
        shape = [{"new": new, "past": past, TOTAL: past + new}.get(size, size) for size in info.shape]
        found[info.name] = rng.standard_normal(shape).astype(np.float32)
        if info.name == "last":
            found["last"] = np.full(shape, past + new - 1, np.int32)
        if info.name == "position_ids":
            found["position_ids"] = rng.integers(0, LONGEST - new) + np.arange(new)[None]
    return found


def check_variant(made: tx8.Program, name: str, tolerance: float) -> None:
    """Steps from an empty cache, of one row for several sequences, as onnxruntime requires."""
    import onnxruntime

    assert all("writes new elements" in line for line in made.compiled.states)
    oracle = onnxruntime.InferenceSession(step(**VARIANTS[name]).SerializeToString())
    batch, rng, past = VARIANTS[name].get("batch", 1), np.random.default_rng(5), 0
    caches = dict.fromkeys(PASTS, np.zeros((batch, GROUPS, 0, SIZE), np.float32))
    with tx8.Session(made) as session:
        for new in [3, 1, 1] if batch > 1 else [3, 1, 8, 4]:
            given = {**inputs_of(oracle, new, past, rng), **caches}
            wanted, *after = oracle.run(["y", *PRESENTS], given)
            found = session.run({k: v for k, v in given.items() if k not in PASTS})["y"]
            np.testing.assert_allclose(found, wanted, atol=tolerance)
            caches, past = dict(zip(PASTS, after, strict=True)), past + new
            for cache_name, array in caches.items():
                np.testing.assert_allclose(session.state[cache_name], array, atol=tolerance)


@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_operands_and_attributes(name: str) -> None:
    check_variant(tx8.compile(step(**VARIANTS[name]), dtype="fp32", dims=DIMS, state=CACHES), name, 2e-5)


@cache
def program() -> tx8.Program:
    return tx8.compile(step(**VARIANTS["rotary"]), dtype="fp16", dims=DIMS, state=CACHES)


def test_steps_append_to_the_cache_in_place() -> None:
    check_variant(program(), "rotary", 1e-2)


def test_rows_that_seqlens_k_leaves_out_stop_the_program() -> None:
    given = {
        name: np.ones((1, 4, heads * SIZE), np.float32) for name, heads in (("q", 4), ("k", 2), ("v", 2))
    }
    for last, apart in ((1, 2), (5, 2)):
        with tx8.Session(program()) as session:
            with pytest.raises(
                Fault, match=f"{apart} is how far seqlens_k is from past \\+ new - 1, the last"
            ):
                session.run({**given, "last": np.array([last], np.int32)})
            assert session.steps == 0


def test_the_sanitizer_finds_nothing() -> None:
    rng = np.random.default_rng(6)
    for past, new in ((0, 3), (9, 1)):
        shapes = {"q": (1, new, HEADS * SIZE), **dict.fromkeys("kv", (1, new, GROUPS * SIZE))}
        shapes |= dict.fromkeys(PASTS, (1, GROUPS, past, SIZE))
        given = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        program().emulated.run({**given, "last": np.array([past + new - 1], np.int32)}, strict=True)
        assert program().emulated.hazards == ()


def test_the_total_length_must_be_that_of_the_cache() -> None:
    model = step(rows="rows")
    sizes = next(node for node in model.graph.node if node.op_type == "Add")
    model.graph.input.append(helper.make_tensor_value_info("m", TensorProto.FLOAT, ["new"]))
    model.graph.node.insert(0, helper.make_node("Shape", ["m"], ["m.size"], "m.size"))
    sizes.input[0] = "m.size"
    for info in model.graph.output[1:]:
        info.type.tensor_type.shape.dim[2].dim_param = TOTAL
    dims = {"rows": (5, 5, 6), "new": (1, 1, 2), "past": (10, 12, 20)}
    with pytest.raises(GraphError) as refusal:
        tx8.compile(model, dims=dims, state=CACHES)
    text = "total_sequence_length must be the 5 rows of query after the 12 of the growing cache; found 13"
    assert text in str(refusal.value)
    assert "com.microsoft.GroupQueryAttention (node 'attend')" in str(refusal.value)


def test_integers_are_summed_along_what_grows() -> None:
    """A mask of any numbers; ReduceSum by halves would have different nodes for each length."""
    w = ModelWriter(4)
    w.nodes.append(helper.make_node("Concat", ["past", "x"], ["present"], "join", axis=1))
    both = w.add("ReduceSum", "mask", keepdims=0)
    rows = w.add("ReduceSum", "mask", w.integers(-1), keepdims=1)
    cache_of = {"past": ["past", 4], "x": ["new", 4], "present": [TOTAL, 4]}
    values: Any = {name: (TensorProto.FLOAT, [2, *shape]) for name, shape in cache_of.items()}
    present = {"present": values.pop("present")}
    integers = TensorProto.INT64
    sums = {both: (integers, []), rows: (integers, [3, 1])}
    model = w.model({**values, "mask": (integers, [3, TOTAL])}, {**sums, **present})
    made = tx8.compile(model, dims=DIMS, state={"past": "present"})
    rng = np.random.default_rng(0)
    for past, new in ((0, 1), (3, 2), (24, 8)):
        mask = rng.integers(-(1 << 40), 1 << 40, (3, past + new))
        arrays = {name: np.ones((2, size, 4), np.float32) for name, size in (("past", past), ("x", new))}
        run = made.run({**arrays, "mask": mask})
        assert run[both] == mask.sum()
        assert (run[rows] == mask.sum(1, keepdims=True)).all()
