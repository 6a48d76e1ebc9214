"""Directives that compilers write: architecture, lines of the source, notes for linkers and debuggers."""

from __future__ import annotations

import re
from pathlib import PurePath

from asm.diagnostics import Fault
from asm.place import SymbolEntry
from asm.syntax.parse import String

from .call import Call, handler, text_of


@handler(".loc")
def _loc(call: Call) -> None:
    """Set the source line of the following instructions: ``.loc FILE LINE`` as compilers write it.

    tx8dis writes ``.loc "file" line``, and ``.loc`` alone where instructions have none.
    """
    quoted = re.fullmatch(r'("(?:[^"\\]|\\.)*")\s+(\d{1,9})', call.arguments)
    numbered = re.fullmatch(rf"(\d{{1,9}})\s+(\d{{1,9}})(?:\s+\d+)?(?:\s+(?:{_LOC_OPTION}))*", call.arguments)
    if call.arguments and not quoted and not numbered:
        raise Fault('.loc takes "file" line, or a number of .file, line, column and options')
    source = call.source
    if quoted:
        source.file, source.line = text_of(String(quoted[1][1:-1], call.start)), int(quoted[2])
    elif numbered:
        known = call.assembly.remembered.files
        if int(numbered[1]) not in known:
            raise Fault(f".loc: no .file has the number {numbered[1]}", None, f"known: {sorted(known)}")
        source.file, source.line = known[int(numbered[1])], int(numbered[2])
        for view in re.findall(r"\bview\s+([A-Za-z_.$][\w.$]*)", call.arguments):
            call.assembly.program.symbols.setdefault(view, SymbolEntry()).value = 0
    else:
        source.file, source.line = None, 0


_LOC_OPTION = (
    r"basic_block|prologue_end|epilogue_begin|is_stmt\s+[01]|isa\s+\d+|discriminator\s+\d+|view\s+-?[\w.$]+"
)


@handler(".file")
def _file(call: Call) -> None:
    """``.file NUMBER "folder" "name"`` names a file for .loc; ``.file "name"`` has no effect."""
    match = re.fullmatch(
        r'(\d{1,9})?\s*("(?:[^"\\]|\\.)*")(?:\s+("(?:[^"\\]|\\.)*"))?(?:\s+md5\s+\w+)?', call.arguments
    )
    if match is None or (match[1] is None and match[3] is not None):
        raise Fault('.file takes "name", or a number, perhaps "folder", and "name"')
    folder, name = (text_of(String(part[1:-1], call.start)) if part else "" for part in match.group(2, 3))
    if match[1]:
        call.assembly.remembered.files[int(match[1])] = str(PurePath(folder, name)) if name else folder


_OPTIONS = ("rvc", "norvc", "push", "pop", "pic", "nopic", "relax", "norelax", "arch")


@handler(".option")
def _option(call: Call) -> None:
    """Turn compression on or off; other GNU options name behaviour that this assembler always has."""
    compression, (option, *rest) = call.assembly.compression, call.fields() or [""]
    if option not in _OPTIONS or bool(rest) != (option == "arch"):
        raise Fault(f".option {call.arguments}", None, f"accepted: {' '.join(_OPTIONS)}")
    if option in ("rvc", "norvc"):
        compression.on = option == "rvc"
    elif option == "push":
        compression.push()
    elif option == "pop":
        compression.pop()
    for change in rest:
        _architecture(call, change)


def _architecture(call: Call, text: str) -> None:
    """Compress instructions if an architecture, as rv64imc, has the extension C; +c and -c change that."""
    compression = call.assembly.compression
    whole = re.fullmatch(r"rv64([a-z]+(?:\d+p\d+)?(?:_[a-z0-9]+)*)", text)
    if whole is not None:
        extensions = re.sub(r"\d+p\d+", "_", whole[1]).split("_")
        compression.on = any("c" in letters for letters in extensions if letters[:1] not in ("z", "s", "x"))
    elif text in ("+c", "-c"):
        compression.on = text == "+c"
    elif not re.fullmatch(r"[+-][a-z0-9]+", text):
        raise Fault(f"{call.name}: architecture {text}", None, "write rv64imfdc, +c or -c")


@handler(".attribute")
def _attribute(call: Call) -> None:
    """Treat ``.attribute arch, "rv64imc"`` as .option arch; other attributes have no effect."""
    tag, value = (*call.fields(), "", "")[:2]
    if not tag or not value:
        raise Fault(".attribute takes a tag and a value")
    if tag in ("arch", "Tag_RISCV_arch", "5"):
        _architecture(call, value.strip('"').lower())


def _nothing(call: Call) -> None:
    """Ignore a directive for linkers, debuggers and unwinders, which the image does not need."""


_IGNORED = """
.addrsig .addrsig_sym .eject .extern .hidden .ident .internal .line .list .ln .nolist .print .protected
.psize .sbttl .title .variant_cc .version .cfi_adjust_cfa_offset .cfi_def_cfa .cfi_def_cfa_offset
.cfi_def_cfa_register .cfi_endproc .cfi_escape .cfi_lsda .cfi_offset .cfi_personality .cfi_register
.cfi_rel_offset .cfi_remember_state .cfi_restore .cfi_restore_state .cfi_return_column .cfi_same_value
.cfi_sections .cfi_signal_frame .cfi_startproc .cfi_undefined .cfi_val_encoded_addr .cfi_window_save
"""
handler(*_IGNORED.split())(_nothing)


@handler(".warning")
def _warning(call: Call) -> None:
    call.assembly.warn(call.source, call.index, Fault(call.string() if call.arguments else ".warning"))


@handler(".error", ".err", ".abort")
def _error(call: Call) -> None:
    raise Fault(call.string() if call.arguments else f"{call.name} in the program")
