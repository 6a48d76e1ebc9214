"""Pass ``codegen``: the lowering of each operation writes the assembly of its phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute

from compiler.codegen.kernel import Kernel
from compiler.dialect.ops import GroupOp, NodeOperation, TensorOperation
from compiler.graph import GraphError
from compiler.lowering.generate import DOES_NOT_FIT, generate
from compiler.passes.ddr.barrier_opt import settled_operands

from .base import Context, main_member
from .work import symbol_of, target_of, work_of


class CodegenPass:
    """Fills ``context.phases`` and ``context.data``, and adds the scratchpad buffers to dev_info."""

    name = "codegen"

    def run(self, context: Context, module: ModuleOp) -> None:
        used: set[str] = set()
        phases = dict(settled_operands(module))
        for name, (operation, values) in zip(phase_names([*phases]), phases.items(), strict=True):
            prefix, target = f"p{len(context.phases)}", target_of(context, operation)
            work = work_of(context, operation)
            try:
                settled = frozenset(symbol_of(value) for value in values)
                kernel = generate(prefix, work, target, operation.barrier is not None, settled)
            except DOES_NOT_FIT as overflow:
                raise GraphError([f"node '{work.name}' ({work.op}): {overflow}"]) from None
            if len(context.phases) % 2:
                kernel.mirror()
            context.phases.append((name, kernel.text()))
            context.data += [*kernel.constants, *kernel.scratches]
            used |= kernel.used
            _describe(operation, kernel)
        context.used = used


def phase_names(phases: Sequence[TensorOperation]) -> Iterator[str]:
    """The unique names of the phases, which statistics and reports use.

    A phase has the name of the graph node of its main member; an operation that a pass inserted for this node
    is appended to it.
    """
    counts: Counter[str] = Counter()
    for operation in phases:
        first = main_member(operation.members) if isinstance(operation, GroupOp) else operation
        name = operation.node.data
        if not isinstance(first, NodeOperation):
            name = f"{name}.{first.name.removeprefix('tx8be.')}"
        counts[name] += 1
        yield name if counts[name] == 1 else f"{name}.{counts[name]}"


def _describe(operation: TensorOperation, kernel: Kernel) -> None:
    """Add the scratchpad buffers to dev_info, each with its name, address and size."""
    buffers: list[Attribute] = []
    for buffer in kernel.spm.buffers:
        if buffer.address >= 0:
            entry = {
                "name": StringAttr(buffer.symbol),
                "address": IntegerAttr(buffer.address, i64),
                "size": IntegerAttr(buffer.size, i64),
            }
            if buffer.second >= 0:
                entry["second"] = IntegerAttr(buffer.second, i64)
            buffers.append(DictionaryAttr(entry))
    assert operation.dev_info is not None
    entries = dict(operation.dev_info.data)
    operation.attributes["dev_info"] = DictionaryAttr({**entries, "spm": ArrayAttr(buffers)})
