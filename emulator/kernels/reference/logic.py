"""Reference of relations and logic, on values and on bits, and of bits to numbers."""

from __future__ import annotations

from collections.abc import Callable

from tx8isa.records.meaning import Bitwise, Form, Relation, Unpack

from .run import Run, float_of, pattern_of


def _place(run: Run, form: Form, i: int) -> int:
    """Return the index of the element of src1 for element i."""
    if form is Form.VUV:
        return i % run.values["unit"]
    if form is Form.VUV_LOOP:
        group, inner = divmod(i, run.values["n"])
        return group * run.values["unit"] + inner % run.values["unit"]
    return i


def _elements(run: Run) -> range:
    return range(run.values["full" if run.meaning.form is Form.VUV_LOOP else "n"])


def _bit(run: Run, name: str, i: int) -> int:
    """Bit i of a packed operand, from before the instruction."""
    return run.before[run.values[name] + i // 8] >> i % 8 & 1


def _set_bit(run: Run, i: int, bit: int) -> None:
    at = run.values["dst"] + i // 8
    run.spm[at] = run.spm[at] & ~(1 << i % 8) | bit << i % 8


def _relation(run: Run) -> None:
    meaning: Relation = run.meaning
    fmt, size = run.form, run.form.bits // 8

    def element(name: str, i: int) -> float:
        return float_of(run.read(run.values[name] + i * size, size), fmt)

    for i in _elements(run):
        operands = [element("src0", i)]
        if meaning.form is Form.VS:
            operands.append(float_of(run.values["src1"], fmt))
        elif meaning.form is not Form.V:
            operands.append(element("src1", _place(run, meaning.form, i)))
        holds = meaning.holds(*operands)
        if meaning.packed:
            _set_bit(run, i, int(holds))
        else:
            run.write(run.values["dst"] + i * size, pattern_of(float(holds), fmt), size)


def _bitwise(run: Run) -> None:
    form, n = run.meaning.form, run.values["n"]
    for i in _elements(run):
        operands = [_bit(run, "src0", i)]
        if form is Form.VUV:
            period = -(-run.values["unit"] // 8) * 8
            operands.append(_bit(run, "src1", i % period) if i < n // period * period else 0)
        elif form is not Form.V:
            operands.append(_bit(run, "src1", _place(run, form, i)))
        _set_bit(run, i, run.meaning.body(*operands) & 1)


def _unpack(run: Run) -> None:
    size = run.form.bits // 8
    for i in range(run.values["n"]):
        one = pattern_of(float(_bit(run, "src0", i)), run.form)
        run.write(run.values["dst"] + i * size, one, size)


RULES: dict[type, Callable[[Run], None]] = {Relation: _relation, Bitwise: _bitwise, Unpack: _unpack}
