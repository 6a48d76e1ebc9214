"""The benchmark of the host's time: what samples belong to, and the tables in docs/benchmarks.md."""

from __future__ import annotations

import platform
import re
import time
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

import asm
from documents import cells
from emulator import native
from emulator.program import Program
from paths import ROOT
from scripts import benchmark_modules
from tx8isa.machine.description import load_machine

MODULES = ("_report", "_sampling", "host_time", "_graphs", "schedule")
PROGRAM = """
        .input  x, fp16, 64x512
        .output y, fp16, 64x512
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, y
        rdma.fp16 dst=0x10000, src=a0, n=32768
        li      t1, 2000
again:  ct.exp.v.fp16 dst=0x30000, src0=0x10000, n=32768
        addi    t1, t1, -1
        bnez    t1, again
        wdma.fp16 dst=a1, src=0x30000, n=32768
        ncc.wait
done:   li      a0, 0
        li      a7, 93
        ecall
"""
sampled = pytest.mark.skipif(
    platform.machine() != "x86_64" or not native.jit_enabled(), reason="samples are taken of x86-64 code"
)


@pytest.fixture(scope="module")
def bench() -> Iterator[SimpleNamespace]:
    with benchmark_modules(*MODULES) as modules:
        yield modules


@pytest.mark.long
@sampled
def test_samples_are_where_the_time_goes(bench: SimpleNamespace) -> None:
    """A program that computes exponentials, in FP16 from a table, and nothing else that takes long."""
    program = Program(asm.assemble(PROGRAM), load_machine(None))
    inputs = {"x": np.ones((64, 512), np.float16)}
    program.run(inputs)
    sampler, end = bench.sampling.Sampler(), time.process_time() + 1.5
    with sampler.running():
        while time.process_time() < end:
            program.run(inputs)
    after = len(sampler.samples)
    assert after > 50
    where = bench.sampling.Map()
    places = [where.place(*sample) for sample in sampler.samples]
    owners = Counter(place.owner for place in places)
    assert owners.most_common(1)[0][0] == "ct.lookup.v"
    kinds = Counter(map(bench.host_time.kind_of, places))
    assert kinds[bench.host_time.VECTOR] > after / 2
    program.run(inputs)
    assert len(sampler.samples) == after, "nothing is sampled afterwards"


@sampled
def test_a_copy_of_the_library_belongs_to_its_kernel(bench: SimpleNamespace) -> None:
    Program(asm.assemble(PROGRAM), load_machine(None)).run({"x": np.ones((64, 512), np.float16)})
    where, code = bench.sampling.Map(), bench.sampling.loaded[0]
    (libc, *_) = (each for each in bench.sampling._mapped() if each.place.owner.startswith("libc."))
    assert where.place(libc.first).owner.startswith("libc.")
    assert where.place(libc.first, code.address).owner == code.name
    assert where.place(code.address, libc.first).owner == code.name
    assert where.place(8) == ("", "")


@pytest.mark.parametrize(
    ("owner", "function", "kind"),
    [
        ("ne.gemm.fp16", "multiply", "matrix engine: products and their sums"),
        ("ne.conv.int8", "panel", "matrix engine: reading operands"),
        ("ne.conv.fp16", "store", "matrix engine: initial sums and results"),
        ("ne.dwconv.fp16", "tx8_entry", "matrix engine: depthwise convolutions"),
        ("ct.add.vv.fp32", "tx8_entry", "vector engine (CT)"),
        ("wdma.16bit", "tx8_entry", "loads and stores of DDR (RDMA, WDMA)"),
        ("td.memset", "tx8_entry", "moves in the scratchpad (TDMA)"),
        ("DTE copy", "tx8_entry", "copies between tiles (DTE), rounds of tiles"),
        ("rounds of tiles", "tx8_entry", "copies between tiles (DTE), rounds of tiles"),
        ("kernel core", "loop", "kernel core"),
        ("", "", "kernel core"),
        ("engine issue", "take", "issuing, queues"),
        ("libpython3.11.so.1.0", "", "Python: what compiled code leaves to it, inputs and outputs"),
        (
            "_zlib.cpython-311-x86_64-linux-gnu.so",
            "",
            "Python: what compiled code leaves to it, inputs and outputs",
        ),
        ("[vdso]", "", "the host's system, others"),
    ],
)
def test_kinds(bench: SimpleNamespace, owner: str, function: str, kind: str) -> None:
    assert bench.host_time.kind_of(bench.sampling.Place(owner, function)) == kind


def test_functions_of_results_are_in_the_kernels(bench: SimpleNamespace) -> None:
    """A renamed function would count as reading operands."""
    folders = ROOT / "emulator" / "kernels" / "ne", ROOT / "tx8isa"
    text = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    for name in ("multiply", *bench.host_time._OF_RESULTS):
        assert re.search(rf"def {name}\(", text), name


def test_the_shares_of_a_column_make_the_run(bench: SimpleNamespace) -> None:
    kinds = dict.fromkeys(bench.host_time.KINDS, 0.0) | {
        bench.host_time.VECTOR: 0.03,
        bench.host_time.CORE: 0.01,
    }
    made = bench.host_time.rows([bench.host_time.HostTime(0.5, 2.0, 0.04, kinds, 7)])
    assert made == [
        ["vector engine (CT)", "30.0 ms, 75%"],
        ["kernel core", "10.0 ms, 25%"],
        ["**a warm run**", "**40.0 ms**"],
        ["reading the image", "500.0 ms"],
        ["the first run: kernels and memories", "2000.0 ms"],
        ["samples", "7"],
    ]


def test_an_unknown_network_is_usage(
    bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for script in (bench.host_time, bench.schedule):
        monkeypatch.setattr("sys.argv", ["script", "resnet51"])
        assert script.main() == 2
        assert capsys.readouterr().err.startswith("no network resnet51; there are resnet50, squeezenet, ")


# --- the page ---------------------------------------------------------------------------------------------


def table_of(name: str) -> list[list[str]]:
    """The first table in the section of a script, its headings first."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    section = page.partition(f"## `benchmarks/{name}.py`")[2].partition("\n## ")[0]
    first = section[section.index("\n| ") :].strip().partition("\n\n")[0]
    lines = [cells(line) for line in first.splitlines()]
    return [lines[0], *lines[2:]]


def test_the_page_says_where_the_time_of_networks_goes(bench: SimpleNamespace) -> None:
    heads, *lines = table_of("host_time")
    assert heads[1:] == list(bench.host_time.NETWORKS)
    names = [line[0] for line in lines]
    assert [name for name in names if name in bench.host_time.KINDS] == names[:-4]
    assert len(names) > 12
    for column in range(1, len(heads)):
        shares = [int(line[column].rpartition(", ")[2].removesuffix("%")) for line in lines[:-4]]
        assert sum(shares) == pytest.approx(100, abs=len(shares))
        run = float(lines[-4][column].strip("*").removesuffix(" ms").replace(",", ""))
        parts = [float(line[column].partition(" ms")[0]) for line in lines[:-4]]
        assert sum(parts) == pytest.approx(run, abs=0.1 * len(parts))


def test_the_page_compares_the_networks_with_the_earlier_compiler(bench: SimpleNamespace) -> None:
    heads, *lines = table_of("schedule")
    assert heads == list(bench.schedule.HEADINGS)
    assert [line[:2] for line in lines] == [
        [name, network.dtype] for name, network in bench.schedule.NETWORKS.items()
    ]
    for line in lines:
        before, now, times, fast, slow, by_runtime, _, moved, least, more = (
            float(cell.replace(",", "")) for cell in line[2:]
        )
        assert times == pytest.approx(now / before, abs=0.006)
        assert fast < now < slow and now < by_runtime
        assert more == pytest.approx(moved / least, abs=0.05)


def test_a_row_of_the_comparison(bench: SimpleNamespace) -> None:
    run = bench.schedule.Run
    before, others = run(1000.0, 8_000_000, {}), {"least": 500.0, "most": 900.0, "c_runtime": 1234.0}
    found = bench.schedule.Comparison(before, run(600.0, 5_000_000, others), 4_000_000)
    cycles = ["1,000", "600", "0.60", "500", "900", "1,234"]
    assert found.cells("net", "fp16") == ["net", "fp16", *cycles, "8.0", "5.0", "4.0", "1.25"]
