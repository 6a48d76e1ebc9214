"""TX8_JIT: every engine gives the same bytes, keeps machine code of its own, and others are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator import native
from emulator.native import keys
from emulator.native.choice import ENGINES
from kernel_bench import Tile
from machine_code import compiled_by, needs_jit
from paths import ROOT
from processes import run_python
from tx8isa.errors import Tx8Error
from tx8isa.numbers.formats import Format

COMPILERS = ("direct", "numba")

KERNELS = [
    ("ct.add.vv", Format.BF16, {"dst": 0x4000, "src0": 0, "src1": 0x1000, "n": 300}),
    ("ct.exp.v", Format.FP32, {"dst": 0x4000, "src0": 0, "n": 70}),
    ("ct.div.vv", Format.FP16, {"dst": 0x4000, "src0": 0, "src1": 0x1000, "n": 70, "rnd": 4}),
    ("ct.cvt.fp32.int8", None, {"dst": 0x4000, "src0": 0, "n": 70}),
    ("td.memset", Format.FP16, {"dst": 0x4000, "value": 0x3C01, "n": 33}),
]


@needs_jit
@pytest.mark.parametrize(("mnemonic", "fmt", "operands"), KERNELS, ids=[case[0] for case in KERNELS])
def test_all_engines_give_the_same_bytes(
    own_cache: Path, mnemonic: str, fmt: Format | None, operands: dict[str, int]
) -> None:
    memories = []
    for engine in ENGINES:
        tile = Tile(3, fmt)
        before = tile.spm.tobytes()
        with compiled_by(engine):
            tile.run(mnemonic, fmt, engine in COMPILERS, operands)
        memories.append(tile.spm.tobytes())
        assert memories[-1] != before
    assert memories[0] == memories[1] == memories[2]


@needs_jit
def test_a_cached_kernel_is_that_of_its_engine(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def double(x: int) -> int:
        return 2 * x

    found = set()
    for engine in COMPILERS:
        with compiled_by(engine):
            assert native.call(native.compile_kernel(double, "double", 1), 21) == 42
            assert native.call(native.compile_once(double, "double", 1), 4) == 8
            found.add(keys.kernel_key(double, "double", 1))
            found.add(keys.generated_key(test_all_engines_give_the_same_bytes, (), "double", 1))
    assert len(found) == 4
    assert len(list(own_cache.glob("*.o"))) == 2


IMPORTED = """
import sys
from emulator import native
from tx8isa.numbers.layouts import tail_width
assert native.call(native.compile_kernel(tail_width, "width", 2), 5, 64) == tail_width(5, 64)
print("numba" in sys.modules, "emulator.native.direct.compile" in sys.modules)
"""


@needs_jit
@pytest.mark.parametrize(("engine", "imported"), [("direct", "False True"), ("numba", "True False")])
def test_only_the_chosen_engine_is_imported(tmp_path: Path, engine: str, imported: str) -> None:
    settings = {"TX8_CACHE_DIR": str(tmp_path), "TX8_JIT": engine}
    assert run_python(IMPORTED, settings).stdout.strip() == imported
    assert run_python(IMPORTED, settings).stdout.strip() == "False False"


@pytest.mark.parametrize("value", ["1", "Numba", "off"])
def test_another_engine_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TX8_JIT", value)
    with pytest.raises(Tx8Error, match=f"^TX8_JIT is '{value}': expected one of direct numba 0$"):
        native.jit_enabled()


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_choice_it_is_direct(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    monkeypatch.delenv("TX8_JIT", raising=False)
    if value is not None:
        monkeypatch.setenv("TX8_JIT", value)
    assert native.engine() == "direct"


PROGRAM = """
_start: td.memset.fp16 dst=0x10000, value=0x3c00, n=0x2000
    ncc.wait
    li a0, 0
    li a7, 93
    ecall
"""


def test_the_command_refuses_it_in_one_line(tmp_path: Path) -> None:
    source, image = tmp_path / "p.s", tmp_path / "p.bin"
    source.write_text(PROGRAM)
    made = "import sys; from asm.cli import assemble_main; sys.exit(assemble_main())"
    subprocess.run([sys.executable, "-c", made, "-q", source, "-o", image], check=True, cwd=ROOT)
    command = [sys.executable, "-c", "import sys; from emulator.cli import main; sys.exit(main())", image]
    environment = {**os.environ, "TX8_JIT": "fast"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == "tx8emu: error: TX8_JIT is 'fast': expected one of direct numba 0\n"


@pytest.mark.long
@needs_jit
def test_kernel_tests_with_numba() -> None:
    """The kernels against their references, in a process that compiles all of them with Numba."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/emulator/kernels"]
    environment = {**os.environ, "TX8_JIT": "numba"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
