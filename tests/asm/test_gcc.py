"""GCC's output assembles to the bytes that GNU as and ld make of it, section by section."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import asm
from asm.assembler import assemble_text
from asm.diagnostics import AsmError
from c_tools import FLAGS, GCC, HEADERS, MARCHES, needs_gcc
from gnu_tools import same_image
from paths import ROOT

FEATURES = ROOT / "tests" / "data" / "compiled.c"
RUNTIME = ROOT / "tx8isa" / "c" / "runtime"
EXAMPLES = sorted([*(ROOT / "examples" / "c").glob("*.c"), *(ROOT / "examples" / "crt").glob("*.c")])
LIBRARY = sorted(RUNTIME.glob("*.c"))
OPTIONS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-O2 -g", f"-Os -march={MARCHES[1]}")
MORE_OPTIONS = (
    *("-Og", "-O0 -g3", "-O2 -gdwarf-4", "-O2 -ffunction-sections -fdata-sections -g", "-O2 -fcommon"),
    *(f"-O3 -march={MARCHES[1]} -ffunction-sections -g", "-O2 -fverbose-asm", "-O2 -mexplicit-relocs"),
    *("-O2 -fno-jump-tables", "-O2 -fasynchronous-unwind-tables", "-O2 -fstack-protector-all", "-O2 -pg"),
    *("-O2 -msmall-data-limit=0", "-O2 -fno-section-anchors", "-O2 -fpatchable-function-entry=2"),
    *("-Os -msave-restore", "-O2 -finstrument-functions", "-O2 -falign-functions=16 -falign-loops=8"),
    *(
        "-O1 -fexceptions",
        "-O2 -fno-zero-initialized-in-bss -fmerge-all-constants",
        "-O1 -fno-guess-branch-probability",
    ),
)


def compiled(source: Path, options: str, folder: Path, compiler: str = GCC) -> str:
    """The assembly that GCC writes for a C file."""
    flags = [flag for flag in FLAGS if not flag.startswith("-std")]
    include = [f"-I{HEADERS}", f"-I{HEADERS / 'tsm'}", f"-I{RUNTIME}"]
    target = folder / "compiled.s"
    command = [compiler, *flags, *include, *options.split(), "-w", "-S", str(source), "-o", str(target)]
    subprocess.run(command, cwd=folder, check=True)
    return target.read_text()


def agree(source: Path, options: str, folder: Path) -> asm.image.Image:
    return same_image(compiled(source, options, folder), folder, MARCHES[MARCHES[1] in options])


@needs_gcc
@pytest.mark.parametrize(
    "source", [p for p in EXAMPLES if p.stem in ("hello", "softmax")], ids=lambda p: p.stem
)
def test_the_examples(source: Path, tmp_path: Path) -> None:
    agree(source, "-O2 -g", tmp_path)


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("source", [*EXAMPLES, *LIBRARY], ids=lambda path: path.stem)
def test_the_examples_and_the_library_with_all_options(source: Path, options: str, tmp_path: Path) -> None:
    agree(source, options, tmp_path)


@needs_gcc
@pytest.mark.parametrize("options", ["-Os -fcommon", f"-O1 -march={MARCHES[1]}"])
def test_unusual_directives(options: str, tmp_path: Path) -> None:
    agree(FEATURES, options, tmp_path)


@needs_gcc
@pytest.mark.long
@pytest.mark.parametrize("options", [*OPTIONS, *MORE_OPTIONS])
def test_unusual_directives_with_all_options(options: str, tmp_path: Path) -> None:
    agree(FEATURES, options, tmp_path)


CPLUSPLUS = """\
struct A { virtual ~A(); virtual int f(int) { return 1; } int x = 3; };
struct B : A { int f(int y) override { return y + x; } };
template <class T> T twice(T a) { return a + a; }
inline int counter() { static int n = 5; return ++n; }
A::~A() {}
int use(A *a) {
    try { return a->f(twice(3)) + counter() + (int)twice(2.5); }
    catch (int e) { return e; }
    catch (...) { throw; }
}
int thrower(int x) { if (x > 3) throw x; return use(new B); }
"""


@needs_gcc
def test_groups_of_sections_and_tables_of_exceptions(tmp_path: Path) -> None:
    source = tmp_path / "groups.cc"
    source.write_text(CPLUSPLUS)
    missing = subprocess.run([GCC, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True)
    if not Path(missing.stdout.strip()).is_absolute():
        pytest.skip("GCC without C++")
    flags = "-O2 -march=rv64imfd_zicsr_zifencei -mabi=lp64d -mcmodel=medany"
    subprocess.run([GCC, *flags.split(), "-S", str(source), "-o", "g.s"], cwd=tmp_path, check=True)
    image = same_image((tmp_path / "g.s").read_text(), tmp_path)
    assert any(segment.section.startswith(".text._Z") for segment in image.segments)


@needs_gcc
def test_debug_information_stays_outside_and_lines_are_those_of_c(tmp_path: Path) -> None:
    source = tmp_path / "lines.c"
    source.write_text("int twice(int x) {\n    return\n        2 * x;\n}\n")
    text = compiled(source, "-O2 -g", tmp_path)
    assert ".debug_info" in text
    image = asm.assemble(text, "lines.s")
    assert [segment.section for segment in image.segments] == [".text"]
    assert {Path(name).name for name, _ in image.lines.values()} == {"lines.c"}
    assert {line for _, line in image.lines.values()} >= {3, 4}
    assert image.symbols["twice"].kind == "func" and image.symbols["twice"].size == 8


@needs_gcc
def test_compiled_code_runs(tmp_path: Path) -> None:
    from chip_bench import final_registers

    source = tmp_path / "gcd.c"
    source.write_text("long gcd(long a, long b) { return b ? gcd(b, a % b) : a; }\n")
    text = compiled(source, "-O2", tmp_path)
    registers = final_registers(f"li a0, 1071\nli a1, 462\ncall gcd\nmv s0, a0\nebreak\n{text}")
    assert registers[8] == 21


@needs_gcc
def test_addresses_of_position_independent_code_are_taken_without_a_table(tmp_path: Path) -> None:
    source = tmp_path / "pic.c"
    source.write_text("int x = 5; int f(int); int g(void) { return f(x); }\nint f(int y) { return y + 2; }\n")
    text = compiled(source, "-O1 -fPIC -fno-inline", tmp_path)
    assert "f@plt" in text and ".option pic" in text
    from chip_bench import final_registers

    assert final_registers(f"call g\nmv s0, a0\nebreak\n{text}")[8] == 7
    with pytest.raises(AsmError, match="%got_pcrel_hi is a place in a table of addresses"):
        asm.assemble("auipc a0, %got_pcrel_hi(x)\nx: nop\n")


def test_lines_with_a_line_of_the_source_are_no_expansion() -> None:
    assembly = assemble_text('.file 1 "a.c"\n.loc 1 7\nnop\n', "p.s", (), {}, None)
    assert list(assembly.section.row_lines) == [7]
    from asm.syntax.source import Source

    assert assembly.parse_counter(Source("p.s", ["nop"], line=7)) is None
    assert assembly.parse_counter(Source("p.s", ["nop"], line=7, expanded=True)) is not None
