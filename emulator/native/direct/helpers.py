"""The machine's versions of primitives as functions that LLVM inlines."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from emulator.native.machine import MACHINE
from emulator.native.machine.primitive import LLVM_TYPES, Elements, Version

from .values import Kind, Untranslatable


def version_for(name: str, kinds: Sequence[Kind]) -> Version:
    """Return the version of a primitive that takes arguments of these kinds."""
    primitive = MACHINE[name]
    if not isinstance(primitive, Elements):
        for version in primitive:
            if len(version.parameters) == len(kinds) and all(map(_takes, version.parameters, kinds)):
                return version
    raise Untranslatable(f"'{name}' with operands of kinds {', '.join(kinds)}")


def _takes(parameter: str, kind: Kind) -> bool:
    return kind in "iunb" if parameter == "i" else kind == parameter


def helper(name: str, version: Version) -> tuple[str, dict[str, str]]:
    """Return the text of a function of that name, and the declarations that it needs, by name."""
    module = ir.Module()
    result = LLVM_TYPES[version.result] if version.result else ir.VoidType()
    kind = ir.FunctionType(result, [LLVM_TYPES[parameter] for parameter in version.parameters])
    function = ir.Function(module, kind, name)
    function.linkage = "internal"
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    made = version.emit(builder, *function.args)
    if version.result:
        builder.ret(made)
    else:
        builder.ret_void()
    others = {found.name: str(found) for found in module.functions if found is not function}
    return str(function), others
