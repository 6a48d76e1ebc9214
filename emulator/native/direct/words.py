"""The primitives of memory and threads as LLVM text, for whole functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator.native.primitives import memory, threads

from .values import Known, Value, Writer, spelled, typed
from .vocabulary import Emit, integer


def word(writer: Writer, table: Known, at: Known) -> str:
    """Pointer to a word of the table at an address."""
    pointer = writer.make("i", f"inttoptr {typed(integer(writer, table))} to ptr").name
    return writer.make("i", f"getelementptr i64, ptr {pointer}, {typed(integer(writer, at))}").name


def call_address(writer: Writer, address: Known, *arguments: Known) -> Value:
    """Call the compiled kernel at an address."""
    code = writer.make("i", f"inttoptr {typed(integer(writer, address))} to ptr").name
    operands = ", ".join(typed(integer(writer, argument)) for argument in arguments)
    return writer.make("i", f"call i64 {code}({operands})")


def _get(writer: Writer, table: Known, at: Known) -> Value:
    return writer.make("i", f"load i64, ptr {word(writer, table, at)}")


def _put(writer: Writer, table: Known, at: Known, value: Known) -> int:
    writer.line(f"store {typed(integer(writer, value))}, ptr {word(writer, table, at)}")
    return 0


def _copy(writer: Writer, *values: Known) -> int:
    """The C library's memmove picks the widest moves this processor has."""
    writer.line(f"call i64 @memmove({', '.join(typed(integer(writer, value)) for value in values)})")
    return 0


def _atomic_add(writer: Writer, address: Known, value: Known) -> Value:
    operand = typed(integer(writer, value))
    return writer.make("i", f"atomicrmw add ptr {word(writer, address, 0)}, {operand} seq_cst")


def _atomic_load(writer: Writer, address: Known) -> Value:
    return writer.make("i", f"load atomic i64, ptr {word(writer, address, 0)} seq_cst, align 8")


def _relax(writer: Writer, looks: Known) -> int:
    count = spelled(integer(writer, looks))
    after = writer.new_label("looked")
    for least, call in (
        (threads.SLEEP, f"@usleep(i32 {threads.MICROSECONDS})"),
        (threads.YIELD, "@sched_yield()"),
    ):
        patient, other = writer.new_label("patient"), writer.new_label("other")
        writer.branch(writer.make("b", f"icmp sge i64 {count}, {least}"), patient, other)
        writer.start(patient)
        writer.line(f"call i32 {call}")
        writer.jump(after)
        writer.start(other)
    writer.jump(after)
    writer.start(after)
    return 0


WORDS: dict[Callable[..., Any], Emit] = {
    memory.get: _get,
    memory.put: _put,
    memory.copy_bytes: _copy,
    memory.call_kernel: call_address,
    memory.call_loop: call_address,
    threads.atomic_add: _atomic_add,
    threads.atomic_load: _atomic_load,
    threads.relax: _relax,
}
"""The writer of each primitive; those without a result give 0."""

DECLARATIONS = """
declare i64 @memmove(i64, i64, i64)
declare i32 @usleep(i32)
declare i32 @sched_yield()
"""
