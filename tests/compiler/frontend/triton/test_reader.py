"""Reading TTIR: the texts of Triton, and texts that are not TTIR."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.frontend.triton.operations import TtirError, TtirType, parse_type
from compiler.frontend.triton.reader import parse_kernels, read_kernels
from triton_launches import TEXTS

TEXT = """\
#loc = loc("scale.py":3:1)
#loc9 = loc("x"(#loc))
module attributes {tt.note = "a } b"} {
  tt.func public @scale(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32} loc("x"(#loc)), %n: i32 loc(#loc9)) attributes {noinline = false} {
    // all blocks
    %c = arith.constant dense<-2.5> : tensor<8x!tt.ptr<f16>> loc(#loc)
    %r:2 = scf.for %i = %a to %b step %c iter_args(%p = %q, %s = %t) -> (tensor<4xf32>, i32)  : i64 {
      %m = "tt.reduce"(%p, %s) <{axis = 1 : i32}> ({
      ^bb0(%u: f32, %v: f32):
        %w = arith.addf %u, %v fastmath<fast> : f32 loc(#loc3)
        tt.reduce.return %w : f32
      }) : (tensor<4xf32>, i32) -> f32 loc(callsite(#loc5 at #loc4))
      scf.yield %m, %s : tensor<4xf32>, i32
    } {tt.num_stages = 3 : i32} loc(#loc)
    %k = tt.trans %r#0 {order = array<i32: 1, 0>} : tensor<2x4xf32> -> tensor<4x2xf32>
    scf.if %k {
      tt.store %x, %k, %r#1 evictionPolicy = evict_last : !tt.ptr<f16>
    }
    tt.return
  }
}
#loc3 = loc("scale.py":7:2)
#loc4 = loc("w"(#loc3))
#loc5 = loc("library.py":1:1)
"""  # noqa: E501


def test_operations_have_what_the_text_says() -> None:
    (kernel,) = parse_kernels(TEXT, "scale.ttir")
    assert kernel.name == "scale"
    assert kernel.parameters == (("x", TtirType("f16", (), True)), ("n", TtirType("i32")))
    constant, loop, transpose, condition, _ = kernel.body.operations
    assert constant.attributes == {"value": "-2.5"}
    assert constant.types == (TtirType("f16", (8,), True),)
    assert loop.operands == ("a", "b", "c", "q", "t") and loop.results == ("r#0", "r#1")
    assert loop.attributes == {"tt.num_stages": 3}
    (body,) = loop.regions
    assert body.parameters == (
        ("i", TtirType("i64")), ("p", TtirType("f32", (4,))), ("s", TtirType("i32")),
    )  # fmt: skip
    reduce, end = body.operations
    assert (reduce.name, reduce.operands, reduce.attributes) == ("tt.reduce", ("p", "s"), {"axis": 1})
    assert [each.name for each in reduce.regions[0].operations] == ["arith.addf", "tt.reduce.return"]
    assert end.operands == ("m", "s")
    assert transpose.operands == ("r#0",) and transpose.attributes == {"order": (1, 0)}
    assert condition.regions[0].operations[-1].name == "scf.yield"
    store = condition.regions[0].operations[0]
    assert store.operands == ("x", "k", "r#1") and store.attributes == {"evictionPolicy": "evict_last"}


def test_operations_know_their_lines() -> None:
    (kernel,) = parse_kernels(TEXT, "scale.ttir")
    reduce = kernel.body.operations[1].regions[0].operations[0]
    assert str(kernel.body.operations[0].location) == "scale.ttir:6:5 (scale.py:3)"
    assert reduce.location.source == ("scale.py", 7)  # the call, not the line of the library
    assert reduce.regions[0].operations[0].location.short == "scale.py:7"
    assert kernel.body.operations[2].location.short == "scale.ttir:15"


def test_a_line_is_the_innermost_one_in_the_file_of_the_kernel() -> None:
    text = (
        '#f = loc("/a/k.py":1:1)\n#help = loc("/a/k.py":9:1)\n#call = loc("/a/k.py":5:1)\n'
        '#library = loc("lib.py":2:1)\n#deep = loc(callsite(#library at #help))\n'
        "#all = loc(callsite(#deep at #call))\n#itself = loc(callsite(#itself at #call))\n"
        "module {\n  tt.func public @f() {\n    tt.return loc(#all)\n  } loc(#f)\n"
        "  tt.func public @g() {\n    tt.return loc(#itself)\n  } loc(#library)\n}\n"
    )
    first, second = parse_kernels(text, "k.ttir")
    assert first.body.operations[0].location.source == ("/a/k.py", 9)
    assert str(first.body.operations[0].location) == "k.ttir:10:5 (k.py:9)"
    assert second.body.operations[0].location.source == ("/a/k.py", 5)  # the outermost, in another file


def test_locations_that_repeat_each_other_are_read_in_time() -> None:
    doubled = "".join(f"#l{n} = loc(callsite(#l{n - 1} at #l{n - 1}))\n" for n in range(1, 200))
    body = "module {\n  tt.func public @f() {\n    tt.return loc(#l199)\n  }\n}\n"
    text = f'#l0 = loc("k.py":1:1)\n{doubled}{body}'
    (kernel,) = parse_kernels(text, "k.ttir")
    assert kernel.body.operations[0].location.source == ("k.py", 1)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f32", TtirType("f32")),
        ("tensor<64x32xf16>", TtirType("f16", (64, 32))),
        ("tensor<8x!tt.ptr<bf16>>", TtirType("bf16", (8,), True)),
        ("!tt.ptr<i8, 1>", TtirType("i8", (), True)),
        ("!tt.ptr<tensor<8xf16>>", TtirType("!tt.ptr<tensor<8xf16>>")),
    ],
)
def test_types(text: str, kind: TtirType) -> None:
    assert parse_type(text) == kind


def test_every_example_is_read_and_names_its_lines() -> None:
    paths = sorted(TEXTS.glob("*.ttir"))
    assert len(paths) > 30
    for path in paths:
        (kernel,) = read_kernels(path)
        places = {operation.location.python for operation in kernel.body.walk()}
        files = {place[0] for place in places if place is not None}
        assert {"kernels.py"} <= files <= {"kernels.py", "standard.py"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "k.ttir: no kernel: expected a module with a tt.func, as Triton prints it"),
        ("module {\n}\n", "k.ttir: no kernel: expected a module with a tt.func, as Triton prints it"),
        (
            "module {\n  tt.func public @f(%x: i32) {\n    %0 = %x\n  }\n}\n",
            "k.ttir:3:5: unexpected '%0 = %x'; expected TTIR as Triton 3 prints it",
        ),
        ("module {\n  tt.func public @f() {\n", "k.ttir:2: the text ends too early"),
        ("module {\n  ;\n}\n", "k.ttir:2:3: unexpected ';'; expected TTIR as Triton 3 prints it"),
        (
            "module {\n  tt.func public @f() {\n    %a = arith.constant dense<0> : tensor<4x3xi32>\n"
            "    tt.return\n  }\n}\n",
            "k.ttir:3:5: arith.constant: tensor<4x3xi32>: each extent of a block is a power of two",
        ),
        ("module {\n  tt.func private @f(i32) -> i32\n}\n", "k.ttir:2:3: @f has no body"),
        (
            "module {\n  tt.func @f(%c: i1) {\n    cf.cond_br %c, ^bb1, ^bb2\n  ^bb1:\n    cf.br ^bb2\n"
            "  ^bb2:\n    %x = tt.get_program_id x : i32\n    tt.return\n  }\n}\n",
            "k.ttir:3:5: cf.cond_br: branches to a block in which several go on, or with values, are not "
            "supported; let each branch return",
        ),
        (
            "module {\n  tt.func @f(%c: i1) {\n    cf.br ^bb1\n  ^bb1:\n    %x = tt.get_program_id x : i32\n"
            "    cf.br ^bb1\n  }\n}\n",
            "k.ttir:6:5: cf.br: branches to a block in which several go on, or with values, are not "
            "supported; let each branch return",
        ),
    ],
)
def test_what_is_no_ttir_is_refused(text: str, message: str) -> None:
    with pytest.raises(TtirError) as error:
        parse_kernels(text, "k.ttir")
    assert str(error.value).startswith(message)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.ttir"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TtirError, match=r"k\.ttir: not a text in UTF-8, so not TTIR"):
        read_kernels(path)
