"""Every record is on one page of the manual, and a file of records that no page names is refused."""

from __future__ import annotations

import re

import pytest

from paths import ROOT
from tx8isa.riscv.format import TableError
from tx8isa.table import compressed as rvc
from tx8isa.table import pages
from tx8isa.table import scalar as rv
from tx8isa.table.pages import PAGES, SCALAR_GROUPS
from tx8isa.table.proof import ProofError, prove
from tx8isa.table.registry import by_mnemonic, instructions


def test_every_file_of_records_is_on_one_page() -> None:
    named = [module for page in PAGES for module in page.modules]
    assert sorted(named) == sorted({record.module for record in instructions()})


def test_every_file_of_scalar_records_is_one_group() -> None:
    homes = {record.body.__module__.rpartition(".")[2] for record in rv.scalar_instructions()}
    assert {*homes, rvc.GROUP} == {group.module for group in SCALAR_GROUPS}


@pytest.mark.parametrize("home", sorted({page.home for page in PAGES}))
def test_sections_named_are_those_of_the_chip_s_pages(home: str) -> None:
    headings = re.findall(r"^#+ (.*)$", (ROOT / f"docs/{home}.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for page in PAGES if page.home == home for name in page.sections} <= set(headings)


def test_a_file_that_no_page_names_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    record = by_mnemonic()["rdma"]
    monkeypatch.setattr(pages, "PAGES", tuple(page for page in PAGES if page.name != "dma"))
    with pytest.raises(ProofError) as caught:
        prove([record])
    assert str(caught.value) == (
        "rdma: no page of the manual has the records of insns/move/dma.py: name it in tx8isa/table/pages.py"
    )


def test_a_file_of_scalar_records_without_a_group_is_refused() -> None:
    with pytest.raises(TableError) as caught:
        rv.load(SCALAR_GROUPS[:-1])
    assert str(caught.value) == (
        "th.dcache.cva: no group of the manual has the records of insns/riscv/cache.py: "
        "name it in tx8isa/table/pages.py"
    )
