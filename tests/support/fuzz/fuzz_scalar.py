"""Random words as programs of the kernel core; the last line of an example has all of the core's state."""

from __future__ import annotations

import hashlib
from random import Random
from typing import Unpack

from chip_bench import CODE, DATA, ONE, W, words_image
from emulator.chip import system as system_module
from emulator.chip.options import RunOptions
from emulator.chip.system import System
from emulator.core import translate
from emulator.memory import state
from emulator.tile.fault import Fault
from tx8isa.errors import Tx8Error
from tx8isa.numbers.primitives import s64
from tx8isa.table import scalar as rv

RECORDS = rv.scalar_instructions()
POINTERS = (
    CODE,
    CODE + 8,
    DATA,
    DATA + 0xFF8,
    W.spm_weak,
    W.spm_weak + ONE.spm.bytes - 4,
    W.spm_strong,
    W.ddr_uncached,
    W.ddr_cached + W.ddr_core_bytes - 4,
    W.ddr_uncached + W.ddr_core_bytes - 1,
    W.ncc,
    W.ncc + 0x740,
    W.pmu,
    W.dte,
    0,
    -1,
    1 << 63,
    (1 << 63) - 1,
    -(1 << 31),
)


def scalar(rng: Random, at: int, length: int) -> int:
    """An instruction; jumps mostly stay inside, immediates are mostly small."""
    record = rng.choice(RECORDS)
    values = {}
    for field in record.fields:
        values[field.name] = rng.randrange(32) if field.kind in ("register", "float") else 0
    word = record.encode(values)
    fixed = record.mask
    if record.kind in ("branch",) or record.mnemonic == "jal":
        return record.encode({**values, "target": 4 * (rng.randrange(length) - at)})
    noise = rng.getrandbits(32) if rng.random() < 0.5 else rng.getrandbits(20)
    kept = 0xFFF << 20 if record.kind in ("load", "store", "csr") and rng.random() < 0.7 else 0
    return word & (fixed | kept) | noise & ~(fixed | kept) & 0xFFFFFFFF if rng.random() < 0.5 else word


def hot_example(rng: Random) -> str:
    """The same with loops, which are translated after a few turns; a trap jumps and ends nothing.

    Some examples run without translation too, which must give the same state.
    """
    system_module.QUANTUM, translate.EARNED = 30, translate.ENOUGH
    handler, state_of_draws = CODE + 4 * rng.randrange(8), rng.getstate()
    found = example(rng, 400, (8, 16, 64), handler)
    if rng.random() < 0.25:
        rng.setstate(state_of_draws)
        assert example(rng, 400, (8, 16, 64), handler, translate=False) == found, "translation changes it"
    return found


def example(
    rng: Random,
    limit: int = 300,
    lengths: tuple[int, ...] = (4, 16, 64),
    handler: int = 0,
    **options: Unpack[RunOptions],
) -> str:
    """Run a program; return a digest of its final state."""
    length = rng.choice(lengths)
    words = [rng.getrandbits(32) if rng.random() < 0.05 else scalar(rng, at, length) for at in range(length)]
    system = System(words_image(words), ONE, **options)
    tile = system.tiles[0]
    for number in range(1, 32):
        tile.set_register(number, s64(rng.choice((*POINTERS, rng.getrandbits(64), rng.getrandbits(12)))))
    tile.csrs["mtvec"] = handler
    tile.words[state.F : state.F + 32] = [s64(rng.getrandbits(64)) for _ in range(32)]
    try:
        system.run(limit)
        verdict = "ended"
    except (Fault, Tx8Error) as error:
        verdict = str(error)
    core: list[object] = [tile.retired, tile.words[: state.SINK].tolist(), tile.output]
    core.append(tile.words[state.F : state.FCSR + 1].tolist())
    if "the limit given" in verdict:  # a trap due at a place without an instruction may be taken or not
        verdict = "the limit"
    else:
        core += [tile.pc, sorted(tile.csrs.items())]
    digest = hashlib.sha256(repr(core).encode())
    digest.update(tile.spm.data.tobytes())
    for first in (0, DATA - CODE):
        digest.update(system.ddr[first : first + 0x2000].tobytes())
    return f"{digest.hexdigest()[:16]} after {tile.retired}: {verdict}"
