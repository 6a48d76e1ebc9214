"""Traces of made slices, written and read back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from asm.disassembler import disassemble_image
from asm.image import Image, Segment
from emulator.engines import queues, tables
from emulator.timing.slices import MOST_RANGES, SLICE, Batch
from emulator.watch.trace.sink import Trace
from record_operands import draw
from time_slices import BASE
from trace_reader import Read
from tx8isa.machine.description import Machine, load_machine
from tx8isa.records.record import Engine
from tx8isa.table.encoding import encoder

MACHINE = load_machine(None)
EMPTY = Image(entry=BASE, segments=())


def write(
    path: Path, image: Image, batches: Iterable[Batch], ends: list[int], machine: Machine = MACHINE
) -> Trace:
    trace = Trace(path, image, machine, "prog.bin")
    for batch in batches:
        trace.take(batch)
    trace.close(ends)
    return trace


def made(path: Path, image: Image, batches: Iterable[Batch], ends: list[int] | None = None) -> Read:
    write(path, image, batches, ends or []).finish()
    return Read(path)


def batch(*rows: dict[str, Any], ranges: dict[int, list[list[int]]] | None = None) -> Batch:
    """Slices given by their columns; what is not given: on tile 0, no record, not blocked."""
    slices = np.zeros(len(rows), dtype=SLICE)
    noted = np.zeros((len(rows), MOST_RANGES, 3), dtype=np.int64)
    for at, row in enumerate(rows):
        usual = {
            "record": tables.numbers()["ct.add.vv"],
            "number": at,
            "pc": BASE,
            "blocker": -1,
            "target": -1,
        }
        for name, value in {**usual, "issued": row.get("started", 0), **row}.items():
            slices[at][name] = value
        own = (ranges or {}).get(at, [])
        slices[at]["sources"] = len(own)
        noted[at, : len(own)] = np.reshape(own, (-1, 3))
    return Batch(slices, noted, np.zeros((len(rows), queues.MAX_FIELDS), dtype=np.int64))


def encoded(seed: int) -> tuple[Image, Batch, list[tuple[str, dict[str, str], set[str]]]]:
    """One instruction of every record, as a program; their slices; (name, operands, in registers) each.

    The names and operands are those that the disassembler prints for the same values without registers.
    """
    rng = Random(seed)
    cases, plain, marked, slices, register_names = [], [], [], [], []
    for record in tables.records():
        fmt = rng.choice(record.formats) if record.formats else None
        case = draw(record, fmt, rng.randint(1, 100), rng)
        if case is None:
            continue
        values = [
            v + (o.memory == "ddr") * MACHINE.windows.ddr_engine
            for v, o in zip(case.values, record.operands, strict=True)
        ]
        marks = [o for o in record.operands if o.words and rng.random() < 0.4]
        bits = sum(1 << record.index(o.name) for o in marks)
        coded = [8 if bits >> i & 1 else v for i, v in enumerate(values)]
        cases.append(case)
        register_names.append({o.name for o in marks})
        plain.append(encoder(record).encode(values))
        marked.append(encoder(record).encode(coded, bits))
    pc = BASE
    for number, (case, code) in enumerate(zip(cases, marked, strict=True)):
        record = tables.numbers()[case.record.mnemonic]
        engine = min(case.record.engine, Engine.DTE)
        slices.append(
            {"record": record, "pc": pc, "track": engine, "started": number * 10, "ended": number * 10 + 5}
        )
        pc += len(code)
    in_ddr = {
        at: [[case.named[o.name] + queues.DDR, 1, 0] for o in case.record.operands if o.memory == "ddr"]
        for at, case in enumerate(cases)
    }
    made_of = batch(*slices, ranges=in_ddr)
    for at, case in enumerate(cases):
        made_of.fields[at, : len(case.values)] = case.values
    return image_of(marked), made_of, list(zip(*spelt(image_of(plain)), register_names, strict=True))


def image_of(code: list[bytes]) -> Image:
    data = b"".join(code)
    segment = Segment(".text", BASE, data, len(data), "rx")
    lines = {BASE + at: ("100%d.s", at) for at in range(0, len(data), 4)}  # no format of ours
    return Image(entry=BASE, segments=(segment,), data_ranges=((BASE, BASE + len(data)),), lines=lines)


def spelt(image: Image) -> tuple[list[str], list[dict[str, str]]]:
    """Names and operands of the instructions of a program, by the disassembler."""
    found = re.findall(r"^    ([a-z]\S*\.\S+|rdma\S*|wdma\S*)(.*)$", disassemble_image(image), re.MULTILINE)
    operands = [dict(re.findall(r"([\w.]+)=(\[.*?\]|[^,\s]+)", text)) for _, text in found]
    return [name for name, _ in found], operands
