"""The headers of the vendor's compiler flow: up to date, with the published names, types and layouts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from c_tools import needs_gcc
from crt_tools import STRICT, compiled, library, published
from paths import ROOT
from tx8isa.c.packets import groups
from tx8isa.c.tsm import __main__ as command
from tx8isa.c.tsm import pages
from tx8isa.c.tsm.members import Member, MemberError, parameters
from tx8isa.c.tsm.tables import find, tables
from tx8isa.c.tsm.vectors import member
from tx8isa.records.record import Engine
from tx8isa.table.packets import PACKETS

CT = PACKETS[Engine.CT]


def test_the_files_are_what_the_records_say() -> None:
    for path, text in pages.texts().items():
        assert path.read_text(encoding="utf-8") == text, "run python -m tx8isa.c.tsm"


def test_check_reports_a_stale_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(pages, "HEADERS", tmp_path)
    monkeypatch.setattr(pages, "LIBRARY", tmp_path)
    assert command.main([]) == 0 and command.main(["--check"]) == 0
    (tmp_path / "instr_operator.h").write_text("edited\n")
    assert command.main(["--check"]) == 1
    assert capsys.readouterr().err == (
        "instr_operator.h differs from the records: run python -m tx8isa.c.tsm\n"
    )


def test_usage(capsys) -> None:
    assert command.main(["--chek"]) == 2
    assert capsys.readouterr().err == f"{command.USAGE}\n"
    assert command.main(["--where"]) == 0
    headers, library_sources = capsys.readouterr().out.splitlines()
    assert Path(headers, "instr_def.h").exists() and Path(library_sources, "tsm_tables.c").exists()


def test_a_member_is_described(capsys) -> None:
    assert command.main(["TsmConvert.INT8_FP16", "TsmGemm.EnableRelu"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TsmConvert.INT8_FP16(CT_Param *instr, uint64_t src0_addr, uint32_t zp, uint64_t dst_addr, "
        "uint32_t elem_count)",
        "    ct.cvt.int8.fp16; formats: none to choose; signature published",
        "TsmGemm.EnableRelu(TsmNeInstr *instr)",
        "    TsmNeInstr, with other members; signature published",
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TsmArit.AddVV", "no table 'TsmArit'; did you mean 'TsmArith'?; the tables: TsmConv, "),
        ("TsmRdma.Rdma2d", "TsmRdma has no member 'Rdma2d'; did you mean 'Rdma1d'?; it has AddSrcDst, "),
        ("TsmRdma", "TsmRdma has no member ''; it has AddSrcDst, ConfigStrideIteration, Rdma1d"),
    ],
)
def test_unknown_members_are_refused(name: str, message: str) -> None:
    with pytest.raises(MemberError) as error:
        find(name)
    assert str(error.value).startswith(message)


def test_a_member_that_leaves_an_operand_out_is_refused() -> None:
    with pytest.raises(MemberError, match=r"^member Half: operand 'n' of ct\.abs\.v gets no value$"):
        member("Half", "ct.abs.v", "uint64_t src0_addr, uint64_t dst_addr, Data_Format fmt", published=False)


def test_a_member_that_fills_no_field_is_refused() -> None:
    with pytest.raises(MemberError, match=r"^member Odd: CT_Param has no field 'src9'$"):
        Member("Odd", CT, parameters("uint64_t a"), (("src9", "a"),), published=False)
    with pytest.raises(MemberError, match="has no field 'src9'"):
        replace(find("TsmArith.AddVV")[1], fills=(("src9", "0"),))


def test_the_tables_have_as_many_members_as_published() -> None:
    counts = {table.name: len(table.members) for table in tables()}
    facts = published()
    assert {name: counts[name] for name in facts} == {name: count for name, (count, _) in facts.items()}
    assert set(counts) - set(facts) == {"TsmPool", "TsmUnPool"}
    ours = {(t.name, m.name) for t in tables() for m in t.members if m.published}
    assert ours == {(table, name) for table, (_, members) in facts.items() for name in members}
    assert len(ours) == 153


def test_every_record_of_ct_and_tdma_has_a_member() -> None:
    from tx8isa.table.registry import instructions

    made = {m.record.mnemonic for table in tables() for m in table.members if m.record}
    assert {i.mnemonic for i in instructions() if i.engine in (Engine.CT, Engine.TDMA)} - made == {
        "ct.bitcount"
    }


# --- compiled -----------------------------------------------------------------------------


@needs_gcc
def test_the_signatures_are_the_published_ones(tmp_path: Path) -> None:
    """GCC compares the type of each member with a pointer declared from the published list."""
    lines = [
        f"void (*const {table}_{name})({', '.join(types)}) = 0;\n"
        f'_Static_assert(_Generic((({table} *)0)->{name}, __typeof__({table}_{name}): 1), "{name}");'
        for table, (_, members) in published().items()
        for name, types in members.items()
    ]
    source = tmp_path / "signatures.c"
    source.write_text("\n".join(['#include "instr_adapter.h"', *lines, ""]).replace("(*const ", "(*"))
    compiled(source, tmp_path / "signatures.o")


@needs_gcc
def test_what_the_vendors_code_writes_compiles(tmp_path: Path) -> None:
    """Initialisers, fields by name, aliases, enumerations, every header, and the sizes of the packets."""
    source = tmp_path / "use.c"
    source.write_text(
        '#include "instr_def.h"\n#include "instr_adapter_plat.h"\n#include "instr_adapter.h"\n'
        '#include "instr_operator.h"\n#include "lib_log.h"\n#include "profiler.h"\n'
        "TsmArithInstr a = {I_CGRA, {0,}, {0,}}; TsmNeInstr n = {I_NEUR, {0,}, {0,}};\n"
        "TsmRdmaInstr r = {I_RDMA, {0,}, {0,}}; TsmWdmaInstr w = {I_WDMA, {0,}, {0,}};\n"
        "TsmDataMoveInstr t = {I_TDMA, {0,}, {0,}}; SC_Param s = {{0,}, {0,}};\n"
        "uint64_t sum(void) { return a.param.wb_data0 + a.param.wb_data1 + a.ctrl.opcode + s.param.srcs; }\n"
        "Data_Shape shape = {1, 2, 3, 4}; St_StrideIteration nest = {0, 1, 0, 1, 0, 1};\n"
        "TsmArith *arith(void) { return g_intrinsic()->arith_pointer; }\n"
        "int negative = Fmt_UNUSED - 13 + RND_STOCHASTIC - 4 + I_CSR - 7 + KCORE_LOG_ERROR - 3;\n"
        + "".join(
            f'_Static_assert(sizeof({p.name}) == {p.size}, "size");\n'
            f'_Static_assert(offsetof({p.name}, {group}.{f.name}) == {f.offset}, "{f.name}");\n'
            for p in PACKETS.values()
            for group, fields in groups(p).items()
            for f in fields
        )
    )
    compiled(source, tmp_path / "use.o")


ALIASES = {
    "CT_Param": (
        "Arith Pool Move UnPool MaskDataMove Convert Peripheral Relation Logic Transcendental Activation "
        "Reduce"
    ),
    "DMA_Param": "Rdma Wdma",
    "TD_Param": "DataMove",
}


@needs_gcc
def test_packets_have_their_published_names(tmp_path: Path) -> None:
    source = tmp_path / "names.c"
    lines = [
        f"{packet} {name}; Tsm{name}Instr *{name}_ = &{name};"
        for packet, names in ALIASES.items()
        for name in names.split()
    ]
    source.write_text("\n".join(['#include "instr_def.h"', *lines, ""]))
    compiled(source, tmp_path / "names.o")


@needs_gcc
def test_both_headers_can_be_included_together(tmp_path: Path) -> None:
    source = tmp_path / "both.c"
    source.write_text(
        '#include <tx8.h>\n#include "instr_adapter.h"\nuint64_t f(void) { CT_Param p = tx8_ct(0, 1, 2);'
        " p.param.src0 = p.src1; tx8_execute(&p); return TsmExecute(&p); }\n"
    )
    compiled(source, tmp_path / "both.o")


@needs_gcc
def test_a_member_that_does_not_exist_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "wrong.c"
    source.write_text('#include "instr_adapter.h"\nvoid f(TsmArith *a) { a->AddVW(0); }\n')
    with pytest.raises(AssertionError, match="has no member named 'AddVW'"):
        compiled(source, tmp_path / "wrong.o", STRICT)


@needs_gcc
def test_the_library_compiles_without_a_warning() -> None:
    assert {path.stem for path in library("kernel")} >= {"tsm_tables", "tsm_execute", "tsm_launch"}


# --- the page about them ------------------------------------------------------------------

PAGE = ROOT / "docs" / "crt.md"


def test_the_page_counts_the_members() -> None:
    members = [m for table in tables() for m in table.members]
    known = sum(m.published for m in members)
    said = f"There are {len(tables())}, with {len(members)} members. The signatures of {known} are published"
    assert said in PAGE.read_text(encoding="utf-8")


def test_the_page_names_every_call_and_header() -> None:
    page = PAGE.read_text(encoding="utf-8")
    headers = sorted(pages.HEADERS.glob("*.h"))
    assert [h.name for h in headers if f"`{h.name}`" not in page] == []
    by_hand = [h.read_text(encoding="utf-8") for h in headers if h not in pages.texts()]
    calls = {name for text in by_hand for name in re.findall(r"\b(\w+)\([^()]*\)(?:;|\n)", text)}
    assert calls >= {"TsmExecute", "RT_ASSERT", "tsm_ep_log"}
    assert [name for name in sorted(calls - {"__set_pid", "printf"}) if name not in page] == []
