"""Proofs about the words of engine instructions: ``tx8isa.table.encoding`` with symbolic words.

The functions there are executed as they are written, with two exceptions. A choice between two numbers (``a
if c else b``, ``if c: x |= a``) becomes one number that depends on c, because a path for each register bit
would be a hundred thousand paths. And ``struct`` packs symbolic words.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import FunctionType
from typing import Any

from every_path import Flag, explore, require, truth
from solver import prove, z3
from symbolic_integers import Bits
from tx8isa.records.record import Instruction, Operand
from tx8isa.table import encoding
from tx8isa.table.encoding import DecodedInstruction, Encoder


class Complaint:
    """The condition on which a value is illegal; true like a non-empty text, without other operations."""

    def __init__(self, term: Any) -> None:
        self.term = term

    def __bool__(self) -> bool:
        return bool(Flag(self.term))


def choose(condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """Compute ``first() if condition else second()`` without a decision."""
    term = z3.simplify((condition != 0).term if isinstance(condition, Bits) else truth(condition))
    if z3.is_true(term) or z3.is_false(term):
        return first() if z3.is_true(term) else second()
    a, b = first(), second()
    if isinstance(a, str):
        return a  # in a message
    if a is None or isinstance(a, Complaint):
        illegal = [z3.BoolVal(False) if value is None else value.term for value in (a, b)]
        return Complaint(z3.If(term, *illegal))
    a, b = Bits.of(a), Bits.of(b)
    return Bits(min(a.least, b.least), max(a.most, b.most), lambda n: z3.If(term, a.low(n), b.low(n)))


class _Choices(ast.NodeTransformer):
    """``a if c else b`` and ``if c: x |= a`` as calls of ``choose``."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return self._call(node.test, node.body, node.orelse)

    def visit_If(self, node: ast.If) -> ast.stmt:
        self.generic_visit(node)
        only = node.body[0]
        if len(node.body) > 1 or node.orelse or not isinstance(only, ast.AugAssign):
            return node
        before = ast.Name(ast.unparse(only.target), ast.Load())
        value = self._call(node.test, ast.BinOp(before, only.op, only.value), before)
        return ast.Assign([only.target], value)

    def _call(self, test: ast.expr, first: ast.expr, second: ast.expr) -> ast.Call:
        empty = ast.arguments([], [], None, [], [], None, [])
        ways: list[ast.expr] = [ast.Lambda(empty, first), ast.Lambda(empty, second)]
        return ast.Call(ast.Name("choose", ast.Load()), [test, *ways], [])


class SymbolicStruct:
    """``struct.Struct`` of little-endian words of four and eight bytes."""

    def __init__(self, layout: str) -> None:
        self.sizes = [{"I": 1, "Q": 2}[letter] for letter in re.fullmatch(r"<([IQ]*)", layout)[1]]  # type: ignore[index]

    def pack(self, *values: Any) -> list[Any]:
        """Words of 32 bits, the low one of a pair first; each value must fit, as ``struct`` requires."""
        found = []
        for size, value in zip(self.sizes, map(Bits.of, values), strict=True):
            require(truth(value >= 0))
            require(truth(value < 1 << 32 * size))
            found += [z3.Extract(32 * i + 31, 32 * i, value.low(64)) for i in range(size)]
        return found

    def unpack_from(self, data: Sequence[Any], offset: int) -> tuple[Bits, ...]:
        found, at = [], offset // 4
        for size in self.sizes:
            found.append(Bits.unsigned(data[at] if size == 1 else z3.Concat(data[at + 1], data[at])))
            at += size
        return tuple(found)


class Words(list[Any]):
    """The bytes of some 32-bit words."""

    def __len__(self) -> int:
        return 4 * super().__len__()


class _Structs:
    """``struct`` as a module."""

    Struct = SymbolicStruct

    @staticmethod
    def unpack_from(layout: str, data: Words, offset: int) -> tuple[Bits, ...]:
        return SymbolicStruct(layout).unpack_from(data, offset)


@cache
def _prepared() -> dict[str, FunctionType]:
    """The functions of ``encoding`` in their symbolic form, by name."""
    names = {**vars(encoding), "choose": choose, "struct": _Structs, "value_error": complaint}
    found = {}
    for function in (Encoder.encode, Encoder.decode, Encoder._checked, encoding.decode):
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        tree = ast.fix_missing_locations(_Choices().visit(tree))
        exec(compile(tree, encoding.__file__, "exec"), names)
        found[function.__name__ if "." in function.__qualname__ else "decode_any"] = names[function.__name__]
    return found


class SymbolicEncoder(Encoder):
    """The encoder of a record with symbolic words."""

    def __init__(self, instruction: Instruction) -> None:
        super().__init__(instruction)
        self.struct = SymbolicStruct(self.struct.format)  # type: ignore[assignment]

    def encode(self, *arguments: Any) -> Any:
        return _prepared()["encode"](self, *arguments)

    def decode(self, *arguments: Any) -> Any:
        return _prepared()["decode"](self, *arguments)

    def _checked(self, *arguments: Any) -> Any:
        return _prepared()["_checked"](self, *arguments)


def complaint(operand: Operand, value: Any) -> Complaint:
    """Return the result of ``value_error`` over every path through it, found once for each value."""
    bits = Bits.of(value)
    term = bits.low(bits.width)
    key = operand.name, id(operand), bits.least, bits.most, term.get_id()
    if key not in _complaints:
        ways = list(explore(lambda: encoding.value_error(operand, value)))
        found = Complaint(z3.Or(*(z3.And(*way.conditions) for way in ways if way.result is not None)))
        _complaints[key] = term, found
    return _complaints[key][1]


_complaints: dict[tuple[Any, ...], tuple[Any, Complaint]] = {}
"""Complaints by operand and value; the term of the value is kept, so that no other one gets its number."""


def any_operands(encoder: Encoder) -> tuple[list[Bits], Bits, list[Any]]:
    """Return values, the mask of operands that are registers, and the condition that they are legal."""
    operands = encoder.instruction.operands
    words = sum(1 << i for i, _ in encoder.words)
    mask = z3.BitVec("registers", max(len(operands), 1))
    values, legal = [], [mask & ~z3.BitVecVal(words, mask.size()) == 0]
    for i, operand in enumerate(operands):
        term = z3.BitVec(f"{i}.{operand.name}", 66)
        values.append(Bits.signed(term))
        register = z3.And(term >= 0, term <= 31)
        legal.append(
            z3.If(z3.Extract(i, i, mask) == 1, register, z3.Not(complaint(operand, values[-1]).term))
        )
    return values, Bits.unsigned(mask), legal


def prove_wide_decoding(instruction: Instruction) -> None:
    """For all legal operands, registers or not, on each worker, assert that the words of ``encode`` give them
    back."""
    encoder = SymbolicEncoder(instruction)
    values, registers, legal = any_operands(encoder)
    worker = z3.BitVec("worker", 3)
    legal.append(z3.ULT(worker, encoding.WORKERS))
    for way in explore(lambda: encoder.encode(values, registers, Bits.unsigned(worker)), *legal):
        way.prove(z3.BoolVal(True), f"{instruction.mnemonic}: encode")
        header = encoder.header | z3.ZeroExt(29, worker) << 29
        prove(way.result[0] == header, *way.conditions, what=f"{instruction.mnemonic}: its header")
        for path in explore(partial(encoder.decode, Words(way.result), 0), *way.conditions):
            found = path.result
            claim = z3.BoolVal(False)
            if isinstance(found, DecodedInstruction):
                pairs = [*zip(found.values, values, strict=True), (found.registers, registers)]
                pairs.append((found.worker, Bits.unsigned(worker)))
                claim = z3.And(*(truth(Bits.of(a) == b) for a, b in pairs))
            path.prove(claim, f"{instruction.mnemonic}: decode(encode(operands))")


def prove_wide_encoding(instruction: Instruction) -> None:
    """For all words with the record's header that are an instruction, assert that ``encode`` makes the same
    words."""
    encoder = SymbolicEncoder(instruction)
    worker = z3.BitVec("worker", 3)
    header = encoder.header | z3.ZeroExt(29, worker) << 29
    words = Words([header, *(z3.BitVec(f"word{i}", 32) for i in range(1, encoder.length))])
    found = 0
    for way in explore(lambda: encoder.decode(words, 0), z3.ULT(worker, encoding.WORKERS)):
        if not isinstance(way.result, DecodedInstruction):
            continue
        found += 1
        operands = way.result.values, way.result.registers, way.result.worker
        for path in explore(partial(encoder.encode, *operands), *way.conditions):
            same = z3.And(*(a == b for a, b in zip(path.result, words, strict=True)))
            path.prove(same, f"{instruction.mnemonic}: encode(decode(words))")
    assert found, f"{instruction.mnemonic}: no words are this instruction"


class _Engines:
    """``Engine`` as far as a message uses it."""

    name = "?"

    def __call__(self, _: Bits) -> _Engines:
        return self

    def __len__(self) -> int:
        return len(encoding.Engine)


class _Codes:
    """The table of encoders for a key that is known to be one entry, or none."""

    def __init__(
        self, encoders: dict[tuple[int, int], SymbolicEncoder], code: tuple[int, int] | None
    ) -> None:
        self.encoders, self.code = encoders, code

    def get(self, key: tuple[Bits, Bits]) -> SymbolicEncoder | None:
        if self.code is None:
            require(z3.Not(z3.Or(*(_is_code(key, code) for code in self.encoders))))
            return None
        require(_is_code(key, self.code))
        return self.encoders[self.code]


def _is_code(key: tuple[Bits, Bits], code: tuple[int, int]) -> Any:
    return z3.And(*(truth(a == b) for a, b in zip(key, code, strict=True)))


def prove_headers(instructions: Sequence[Instruction]) -> None:
    """Assert that every header is that of one record, with its number of words and one of the workers, or is
    refused."""
    encoders = {(i.engine, i.opcode): SymbolicEncoder(i) for i in instructions}
    assert len(encoders) == len(instructions), "two records have one engine and opcode"
    header = z3.BitVec("header", 32)
    mark = header & encoding.MARK == encoding.MARK
    engine, opcode, length, worker = (
        z3.Extract(*ends, header) for ends in ((11, 7), (22, 15), (28, 23), (31, 29))
    )
    own = {code: z3.And(mark, engine == code[0], opcode == code[1]) for code in encoders}
    for code, assumption in {**own, None: z3.Not(z3.Or(*own.values()))}.items():
        names = {
            **_prepared()["decode_any"].__globals__,
            "_by_code": lambda code=code: _Codes(encoders, code),
            "Engine": _Engines(),
        }
        function = FunctionType(_prepared()["decode_any"].__code__, names)
        due = z3.BoolVal(False)
        if code is not None:
            due = z3.And(length == encoders[code].length, z3.ULT(worker, encoding.WORKERS))
        for path in explore(partial(function, Words([header]), 0), assumption):
            reason = path.result.reason
            path.prove(
                due == z3.BoolVal("cut off" in reason), f"header of engine and opcode {code}: {reason}"
            )
