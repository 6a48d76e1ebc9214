"""The graph of phases in the page: the flows are the bytes that were copied, the picture shows each once.

The oracles are programs whose copies are counted by hand, and the geometry of the picture.
"""

from __future__ import annotations

import random
import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import asm
from asm.image import write_image
from emulator.cli import main
from emulator.watch.phase_graph import PhaseBox, phase_graph, short_bytes
from emulator.watch.report.flows import CONSTANTS, INPUTS, OUTPUTS
from report_page import embedded

SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</svg><script>"
PROGRAM = """
        .input  x, fp16, 1024
        .output y, fp16, 1024
        .section .ddr.bss
        .balign 64
kept:   .space  2048
        .section .ddr
        .balign 64
table:  .fill   1024, 2, 0
        .text
_start: csrr    t0, mhartid
        bnez    t0, done
        la      a0, x
        la      a1, kept
        la      a2, table
        la      a3, y
        .node   "first"
        rdma.fp16 dst=0x10000, src=a0, n=1024
        wdma.fp16 dst=a1, src=0x10000, n=1024
        ncc.wait
        .node   "EVIL"
        rdma.fp16 dst=0x10000, src=a1, n=1024
        rdma.fp16 dst=0x20000, src=a2, n=256
        wdma.fp16 dst=a3, src=0x10000, n=512
        ncc.wait
        .node   "last"
        rdma.fp16 dst=0x10000, src=a1, n=512
        rdma.fp16 dst=0x20000, src=a3, n=256
        addi    a3, a3, 1024
        wdma.fp16 dst=a3, src=0x10000, n=512
        ncc.wait
        .node   ""
done:   li      a0, 0
        li      a7, 93
        ecall
""".replace("EVIL", EVIL)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("flows")
    (folder / "p.bin").write_bytes(write_image(asm.assemble(PROGRAM)))
    np.save(folder / "x.npy", np.ones(1024, np.float16))
    given = [f"--input=x={folder / 'x.npy'}", f"--html={folder / 'p.html'}"]
    assert main([str(folder / "p.bin"), "-q", *given]) == 0
    return (folder / "p.html").read_text()


def test_flows_are_the_bytes_that_were_copied(page: str) -> None:
    texts, _ = embedded(page)
    names = dict(enumerate(texts["nodes"])) | {CONSTANTS: "constants", INPUTS: "inputs", OUTPUTS: "outputs"}
    assert {(names[a], names[b]): moved for a, b, moved in texts["flows"]} == {
        ("inputs", "first"): 2048,
        ("first", EVIL): 2048,
        ("constants", EVIL): 512,
        ("first", "last"): 1024,
        (EVIL, "last"): 512,
        (EVIL, "outputs"): 1024,
        ("last", "outputs"): 1024,
    }


def test_the_page_has_the_picture_with_names_as_text(page: str) -> None:
    (svg,) = re.findall(r'<div id="graph" class="scroll">(.*?)</div>', page, re.DOTALL)
    assert EVIL not in svg
    found = boxes(svg)
    assert set(found) == {"inputs", "first", EVIL, "last", "outputs"}
    assert found["first"][1] < found[EVIL][1] < found["last"][1] < found["outputs"][1]
    assert f"first to {EVIL}: 2,048 bytes" in titles(svg)
    assert any(title.startswith(f"{EVIL}: ") and title.endswith("constants 512 B") for title in titles(svg))


def test_a_program_of_one_node_has_no_picture(tmp_path: Path) -> None:
    text = re.sub(r"\.node .*", "", PROGRAM)
    (tmp_path / "p.bin").write_bytes(write_image(asm.assemble(text)))
    assert main([str(tmp_path / "p.bin"), "-q", "--random", "1", "--html", str(tmp_path / "p.html")]) == 0
    assert 'id="graph"' not in (tmp_path / "p.html").read_text()
    assert phase_graph([PhaseBox("a", [1], 5.0), PhaseBox("outputs", [])], {(0, 1): 9}) == ""


# --- the picture --------------------------------------------------------------------------


def titles(svg: str) -> list[str]:
    return [str(each.text) for each in ElementTree.fromstring(svg).iter(f"{SVG}title")]


def boxes(svg: str) -> dict[str, tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box, by its name."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        rect, title = group.find(f"{SVG}rect"), group.find(f"{SVG}title")
        assert rect is not None and title is not None
        x, y, wide, high = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        found[str(title.text).partition(": ")[0]] = (x, y, x + wide, y + high)
    return found


def drawn(count: int, pairs: dict[tuple[int, int], int]) -> str:
    return phase_graph([PhaseBox(f"p{at}", [at], 100.0 + at) for at in range(count)], pairs)


@pytest.mark.parametrize("seed", range(5))
def test_readers_are_below_what_they_read_and_nothing_overlaps(seed: int) -> None:
    draw = random.Random(seed)
    pairs = {(a, b): draw.randrange(1, 10**6) for a, b in combinations(range(20), 2) if draw.random() < 0.15}
    svg = drawn(20, pairs)
    found = boxes(svg)
    assert set(found) == {f"p{at}" for at in range(20)}
    for a, b in pairs:
        assert found[f"p{a}"][3] < found[f"p{b}"][1]
    for one, other in combinations(found.values(), 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    width = float(ElementTree.fromstring(svg).attrib["width"])
    assert all(left >= 0 and right <= width for left, _, right, _ in found.values())
    assert sum(" to " in title for title in titles(svg)) == len(pairs)


def test_of_sixty_phases_chains_become_one_box_with_the_sum_of_their_cycles() -> None:
    pairs = {(at, at + 1): 1000 for at in range(59)} | {(at, at + 10): 500 for at in range(4, 45, 10)}
    svg = drawn(60, pairs)
    found = [title for title in titles(svg) if "cycles" in title]
    assert len(found) < 20
    assert sum(int(re.findall(r"([\d,]+) cycles", t)[0].replace(",", "")) for t in found) == sum(
        range(100, 160)
    )
    assert f"p5 ... p13: {sum(range(105, 114))} cycles, 9 phases" in found
    assert len(boxes(drawn(10, {(at, at + 1): 1000 for at in range(9)}))) == 10, "few phases stay as they are"


def test_a_loop_goes_back_beside_the_boxes() -> None:
    svg = drawn(3, {(0, 1): 10, (1, 2): 10, (2, 0): 5})
    found = boxes(svg)
    assert found["p0"][1] < found["p1"][1] < found["p2"][1]
    assert svg.count("stroke-dasharray") == 1
    assert "p2 to p0: 5 bytes" in titles(svg)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (401408, "401 kB"), (3.2e6, "3.2 MB"), (5e9, "5 GB")],
)
def test_bytes_in_few_letters(size: float, text: str) -> None:
    assert short_bytes(size) == text
