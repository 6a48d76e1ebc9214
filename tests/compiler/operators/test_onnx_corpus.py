"""The onnx package's own tests: compiled, run on the emulated chip, compared with their expected values."""

from __future__ import annotations

import pytest

import onnx_cases
from corpus_cases import Result, main, names_of, run_case, table
from paths import TESTS

LISTS = TESTS / "data" / "corpus"

NODES = onnx_cases.read_list(LISTS / "dev_node_tests.txt")
FRAMEWORK = onnx_cases.read_list(LISTS / "dev_framework_tests.txt")

#: One or two models for each way in which a model differs from graph.json.
SAMPLE = (
    "test_softmax_axis_1_expanded",
    "test_reduce_sum_do_not_keepdims_example",
    "test_layer_normalization_2d_axis0",
    "test_shape_start_1_end_2",
    "test_split_equal_parts_1d_opset18",
    "test_clip_default_max_expanded",
    "pytorch-converted/test_Conv2d_groups",
    "pytorch-converted/test_softmax_lastdim",
    "pytorch-operator/test_operator_params",
    "f32/pytorch-operator/test_operator_add_broadcast",
    "test_nonmaxsuppression_two_batches",
    "test_unique_sorted_with_axis_3d",
)


@pytest.mark.parametrize("name", [name for name in SAMPLE if name in (*NODES, *FRAMEWORK)])
def test_sample_passes(name: str) -> None:
    result = run_case(name, tiles=2)
    assert result.verdict == "pass", result.text


def test_the_sample_is_of_the_lists() -> None:
    assert len(NODES) == 738 and len(FRAMEWORK) == 63
    assert not set(SAMPLE) - {*NODES, *FRAMEWORK}


@pytest.mark.long
@pytest.mark.parametrize("name", [*NODES, *FRAMEWORK])
def test_no_case_fails(name: str) -> None:
    result = run_case(name, tiles=4)
    assert result.verdict != "FAIL", result.text


def test_a_wrong_value_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    import corpus_cases

    real = corpus_cases.run.execute
    monkeypatch.setattr(
        corpus_cases.run, "execute", lambda *a: ({n: v + 1 for n, v in real(*a)[0].items()}, 0)
    )
    assert run_case("test_relu", tiles=1).verdict == "FAIL"


def test_an_error_of_the_compiler_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    import corpus_cases

    def broken(*arguments: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr(corpus_cases, "compile_graph", broken)
    result = run_case("test_relu")
    assert result.verdict == "FAIL" and "KeyError" in result.text


def test_the_table_counts(capsys: pytest.CaptureFixture[str]) -> None:
    results = [Result("a", "Relu", "pass"), Result("b", "Relu", "FAIL"), Result("c", "Loop", "unsupported")]
    rows = [line.split() for line in table(results).splitlines()]
    assert rows[1:] == [["Loop", "0", "1", "0"], ["Relu", "1", "0", "1"], ["total", "1", "1", "1"]]
    assert main(["test_relu", "--tiles", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["total", "1", "0", "0"]


def test_names_come_from_lists_and_arguments() -> None:
    assert names_of(["test_relu", str(LISTS / "dev_framework_tests.txt")])[:2] == ["test_relu", FRAMEWORK[0]]
