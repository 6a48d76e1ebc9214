"""Runs the onnx package's own tests through tx8cc and the emulator, and counts the verdicts.

    python tests/support/networks/corpus_cases.py tests/data/corpus/dev_node_tests.txt
    python tests/support/networks/corpus_cases.py --dtype bf16 --only Softmax,Conv tests/data/corpus/*.txt
    python tests/support/networks/corpus_cases.py test_relu pytorch-converted/test_Conv2d

A case passes, or it is ``unsupported`` (refused in one line that names the operator), or it FAILs: a wrong
value, another error, a fault. The exit status is 1 when any failed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx

import onnx_cases
from compiler.driver import compile_graph
from compiler.evaluation.storage import STORAGE
from compiler.evaluation.tolerance import Kind, judge
from compiler.frontend.onnx.importer import load_onnx
from compiler.graph import Array
from compiler.tools import run
from tx8isa.errors import Tx8Error
from tx8isa.numbers.rounding import rounded

#: Operators that give values as they are.
_MOVEMENT = {
    *("CenterCropPad", "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand"),
    *("Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Max", "MaxPool", "MaxUnpool", "Min"),
    *("Neg", "Pad", "ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "ScatterElements"),
    *("ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Trilu"),
    *("Unsqueeze", "Where"),
}
_QUANTISING = {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"}


@dataclass(frozen=True)
class Result:
    """The result of one case: ``verdict`` is pass, unsupported or FAIL."""

    name: str
    operator: str
    verdict: str
    text: str = ""
    seconds: float = 0.0


def run_case(name: str, dtype: str = "fp32", tiles: int | None = None) -> Result:
    """Compile and run one test of the onnx package and compare with the outputs it expects."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = onnx_cases.load(name)
    try:
        verdict, text = _outcome(case, dtype, tiles)
    except Exception as error:  # a failure of the compiler, which the table must show
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        verdict, text = "FAIL", f"{type(error).__name__} at {place}: {str(error)[:150]}"
    return Result(name, case.operator, verdict, text, time.perf_counter() - start)


def _outcome(case: Any, dtype: str, tiles: int | None) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(case.model, path)
        try:
            program = compile_graph(load_onnx(path), dtype, tiles)
        except Tx8Error as error:
            text = str(error)
            refused = text.startswith("unsupported ") and "\n" not in text
            return ("unsupported", text) if refused else ("FAIL", f"refused as: {text}")
    for inputs, outputs in case.sets:
        given, expected = _rounded(case, inputs, outputs, dtype)
        got, _ = run.execute(program, given)
        if [*got] != [*expected]:
            return "FAIL", f"outputs are {', '.join(got)}; expected {', '.join(expected)}"
        for name, want in expected.items():
            problem = _difference(case, name, got[name], want, dtype)
            if problem:
                return "FAIL", f"output {name}: {problem}"
    return "pass", ""


def _rounded(
    case: Any, inputs: Mapping[str, Array], outputs: Mapping[str, Array], dtype: str
) -> tuple[dict[str, Array], Mapping[str, Array]]:
    """Inputs in the types of files, and expected outputs; below fp32 for inputs rounded to the type."""
    if dtype == "fp32":
        return {name: onnx_cases.to_npy(array) for name, array in inputs.items()}, outputs
    given = {name: _through(array, dtype) for name, array in inputs.items()}
    travelling = {name: onnx_cases.to_npy(array) for name, array in given.items()}
    if all(np.array_equal(given[name], array, equal_nan=True) for name, array in inputs.items()):
        return travelling, outputs  # nothing to round; the test's expected values hold
    names = [item.name for item in case.model.graph.output]
    return travelling, dict(zip(names, _evaluated(case.model, names, given), strict=True))


def _evaluated(model: onnx.ModelProto, names: Sequence[str], given: Mapping[str, Array]) -> list[Array]:
    """The outputs by onnx's reference evaluator; by onnxruntime where it lacks an operator."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import RuntimeImplementationError

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(array) for array in ReferenceEvaluator(model).run(names, dict(given))]
        except RuntimeImplementationError:
            import onnxruntime

            session = onnxruntime.InferenceSession(model.SerializeToString())
            return [np.asarray(array) for array in session.run(names, dict(given))]


def _through(array: Array, dtype: str) -> Array:
    if array.dtype.kind != "f" and array.dtype != ml_dtypes.bfloat16:
        return array
    return rounded(array, STORAGE[dtype]).astype(array.dtype)


def _difference(case: Any, name: str, got: Array, want: Array, dtype: str) -> str | None:
    declared = onnx.helper.tensor_dtype_to_np_dtype(case.declared()[name]).name
    travelling = onnx_cases.to_npy(want)
    if got.shape != want.shape or got.dtype != travelling.dtype:
        return f"{got.dtype} {list(got.shape)}, expected {travelling.dtype} {list(want.shape)}"
    verdict = judge(_kind(case), dtype, got, travelling, declared=declared)
    return None if verdict.ok else verdict.text


def _kind(case: Any) -> Kind:
    operators = {node.op_type for node in case.model.graph.node}
    if case.operator in _QUANTISING:
        return "quantising"
    return "movement" if operators <= _MOVEMENT else "operator"


def names_of(arguments: Sequence[str]) -> list[str]:
    """Test names: arguments that are files are lists of them."""
    names: list[str] = []
    for argument in arguments:
        names += onnx_cases.read_list(argument) if Path(argument).is_file() else [argument]
    return names


def table(results: Sequence[Result]) -> str:
    """Passes, refusals and failures by operator, and their totals."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        counts[result.operator][result.verdict] += 1
        counts["total"][result.verdict] += 1
    verdicts = ("pass", "unsupported", "FAIL")
    lines = [f"{'operator':<26}" + "".join(f"{verdict:>13}" for verdict in verdicts)]
    for operator in [*sorted(set(counts) - {"total"}), "total"]:
        lines.append(f"{operator:<26}" + "".join(f"{counts[operator][verdict]:>13}" for verdict in verdicts))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("tests", nargs="+", metavar="TEST", help="a test's name, or a file that lists some")
    parser.add_argument("--dtype", default="fp32", choices=tuple(STORAGE))
    parser.add_argument("--only", help="operators, separated by commas")
    parser.add_argument("--tiles", type=int, default=4, help="tiles that take part (default: 4)")
    parser.add_argument("-v", "--verbose", action="store_true", help="also say what was refused, and why")
    options = parser.parse_args(arguments)
    results = []
    for name in names_of(options.tests):
        if options.only and onnx_cases.load(name).operator not in options.only.split(","):
            continue
        result = run_case(name, options.dtype, options.tiles)
        results.append(result)
        if result.verdict == "FAIL" or (options.verbose and result.verdict != "pass"):
            print(f"{result.verdict:<12}{result.name}: {result.text}", flush=True)
    print(table(results))
    return int(any(result.verdict == "FAIL" for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
