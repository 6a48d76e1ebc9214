"""The public C runtime compiles unmodified and links: from a checkout, where the environment names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from c_tools import needs_gcc
from crt_checkout import VARIABLE, checkout, compiled_files, link_error, sources

LIKE = """\
#include "Tx81/tx81.h"
#include "instr_operator.h"
#include "lib_log.h"
#include "profiler.h"

void __Likewise(uint64_t *src, uint64_t *dst, uint32_t count, uint16_t fmt) {
    TsmTranscendental *cmd = g_intrinsic()->transcendental_pointer;
    TsmTranscendentalInstr inst = {I_CGRA, {0,}, {0,}};
    cmd->Exp(&inst, (uint64_t)src, (uint64_t)dst, count, (Data_Format)fmt);
    TsmExecute(&inst);
    set_value2float32((Data_Format)fmt, get_spm_memory_mapping((uint64_t)dst));
}
"""
HEADER = '#include "instr_adapter.h"\nfloat set_value2float32(Data_Format fmt, int8_t *value);\n'


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A checkout with one of our files."""
    folder = tmp_path / "crt"
    (folder / "include" / "Tx81").mkdir(parents=True)
    (folder / "lib" / "Tx81").mkdir(parents=True)
    (folder / "include" / "Tx81" / "tx81.h").write_text(HEADER)
    (folder / "lib" / "Tx81" / "like.c").write_text(LIKE)
    return folder


@needs_gcc
def test_a_file_of_that_kind_compiles_and_links(made: Path, tmp_path: Path) -> None:
    objects, refused = compiled_files(made, tmp_path)
    assert refused == {} and len(objects) == 1
    assert link_error(objects, tmp_path) == ""


@needs_gcc
def test_what_does_not_compile_or_link_is_seen(made: Path, tmp_path: Path) -> None:
    wrong = made / "lib" / "Tx81" / "wrong.c"
    wrong.write_text(LIKE.replace("cmd->Exp", "cmd->Exq"))
    assert list(compiled_files(made, tmp_path)[1]) == ["wrong.c"]
    wrong.write_text(LIKE.replace("__Likewise", "__Other").replace("TsmExecute(", "TsmExecuteAll("))
    objects, refused = compiled_files(made, tmp_path)
    assert refused == {} and "undefined reference to `TsmExecuteAll'" in link_error(objects, tmp_path)
    wrong.write_text("void __Likewise(void) {}\nvoid __Third(void) {}\n")
    objects, refused = compiled_files(made, tmp_path)
    assert refused == {} and "multiple definition of `__Likewise'" in link_error(objects, tmp_path)


@needs_gcc
@pytest.mark.skipif(checkout() is None, reason=f"{VARIABLE} names no checkout of the public C runtime")
def test_the_public_c_runtime_compiles_and_links(tmp_path: Path) -> None:
    folder = checkout()
    assert folder is not None and sources(folder), f"{VARIABLE}: no C files in lib/Tx81"
    objects, refused = compiled_files(folder, tmp_path)
    assert refused == {}, "\n".join(refused.values())
    assert link_error(objects, tmp_path) == ""
    assert link_error([path for path in objects if path.stem == "powf_test_1"], tmp_path) == ""
