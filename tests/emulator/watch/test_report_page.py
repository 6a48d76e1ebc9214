"""The page of ``--report`` in headless Chromium: it draws, zooms, filters and selects, and fetches nothing.

``REPORT_SCREENSHOTS=docs/screenshots`` writes pictures there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from asm.image import LIVE_ROLES, LiveRange
from browsers import needs_browser, start
from documents import ROOT
from emulator.watch.report.page import make_page
from emulator.watch.report.sink import ReportSink
from emulator.watch.stats.sink import Statistics
from emulator.watch.strict.hazards import Hazard, HazardKind, Site
from report_tiles import tiles_of
from time_slices import Slices
from tx8isa.machine.description import load_machine

TILES, NODES = 6, 7
EVIL = "</script><img src=x onerror=alert(1)>"

pytestmark = needs_browser


def a_report(path: Path) -> None:
    machine, source = load_machine(None), Slices(seed=7, tiles=TILES, instructions=60, nodes=NODES)
    image = replace(source.image, live=live_ranges(source))
    statistics = Statistics(image, machine)
    report = ReportSink(image, machine, statistics)
    for batch in source.batches():
        statistics.take(batch)
        report.take(batch)
    ends = [*source.ends] + [0] * (machine.tiles - TILES)
    statistics.close(ends)
    report.close(ends)
    pc = min(source.image.lines)
    site = Site(2, pc, "ct.add.vv", None, *source.image.lines[pc], source.image.nodes[pc])
    hazard = Hazard(HazardKind.RACE, site, None, "DDR", 64, 127, f"nobody waits {EVIL}", "insert ncc.wait")
    path.write_bytes(
        make_page(report, tiles_of(report), "prog.bin", fault=f"stopped {EVIL}", hazards=[hazard])
    )


def live_ranges(source: Slices) -> list[LiveRange]:
    """The whole scratchpad in pieces, each for a third of the program, under a name that is not markup."""
    size, pcs = 0x8000, sorted(source.image.nodes)
    thirds = [pcs[0], pcs[len(pcs) // 3], pcs[2 * len(pcs) // 3], pcs[-1] + 8]
    return [
        LiveRange(f"b{at}.{third}{EVIL}", LIVE_ROLES[at % 7], f"value {at}", at * size, size, *ends)
        for at in range(load_machine(None).spm.bytes // size)
        for third, ends in enumerate(pairwise(thirds))
    ]


def opened(driver: Any, path: Path) -> None:
    driver.get(path.as_uri())
    until(driver, lambda: driver.execute_script("return document.body.dataset.ready"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("report") / "out.html"
    a_report(path)
    driver = start()
    try:
        opened(driver, path)
        yield driver
    finally:
        driver.quit()


@pytest.fixture(autouse=True)
def whole(browser: Any) -> None:
    """Before each test: all shown, no filter."""
    browser.execute_script(
        "tx8.select({tile: -1, node: -1, line: -1, text: ''}); tx8.setTime(0, tx8.data.cycles)"
    )
    until(browser, lambda: shown(browser)[1] == cycles(browser))


def until(driver: Any, holds: Callable[[], Any], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, driver.execute_script(
            "return document.getElementById('status').textContent"
        )
        time.sleep(0.02)


def find(driver: Any, selector: str) -> Any:
    return driver.find_element("css selector", selector)


def value(driver: Any, expression: str) -> Any:
    return driver.execute_script(f"return {expression}")


def cycles(driver: Any) -> float:
    return value(driver, "tx8.data.cycles")


def shown(driver: Any) -> tuple[float, float]:
    """The stretch of time for which the timeline was last drawn."""
    return tuple(map(float, value(driver, "[document.body.dataset.start, document.body.dataset.end]")))


def lasting(driver: Any, condition: str) -> int:
    """Count the slices of at least a pixel's width that fulfil a condition on their number ``i``."""
    return value(
        driver,
        "tx8.data.slice_kind.reduce((sum, _, i) => "
        f"sum + ({condition} && tx8.data.slice_length[i] >= tx8.data.cycles / COLUMNS), 0)",
    )


def quads(driver: Any) -> list[tuple[float, float, float]]:
    """Left, bottom and opacity of the slices that are drawn."""
    return value(
        driver,
        "(({left, bottom, alpha}) => left.map((x, i) => [x, bottom[i], alpha[i]]))(tx8.models.slices.data)",
    )


def test_every_chart_is_painted(browser: Any) -> None:
    """Each canvas has pixels of several colours."""
    count = """
        const found = new Set();
        const shadows = (root) => [...root.querySelectorAll('*')].forEach((e) => {
            if (e.tagName === 'CANVAS' && e.width) {
                const {data} = e.getContext('2d').getImageData(0, 0, e.width, e.height);
                new Uint32Array(data.buffer).forEach((pixel) => found.add(pixel));
            }
            if (e.shadowRoot) shadows(e.shadowRoot);
        });
        shadows(document.getElementById(arguments[0]));
        return found.size"""
    for chart in ("timeline", "buffers", "spm", "ddr", "noc", "mesh", "roofline"):
        until(browser, lambda chart=chart: browser.execute_script(count, chart) > 8)


def test_it_says_how_the_run_ended(browser: Any) -> None:
    assert find(browser, "#status").text == f"stopped {EVIL}"
    assert EVIL in find(browser, "#hazards").text
    assert not browser.find_elements("css selector", "img[src=x]")


def test_zoom_shows_a_part(browser: Any) -> None:
    all_slices = len(quads(browser))
    for _ in range(3):
        find(browser, "#zoom-in").click()
    until(browser, lambda: shown(browser)[1] - shown(browser)[0] == pytest.approx(cycles(browser) / 8))
    start, end = shown(browser)
    assert start == pytest.approx(cycles(browser) * 7 / 16)
    assert len(quads(browser)) < all_slices
    assert value(browser, "[tx8.models.ddr.x_range.start, tx8.models.spm.x_range.end]") == [start, end]
    find(browser, "#later").click()
    until(browser, lambda: shown(browser)[0] == pytest.approx((start + end) / 2))
    find(browser, "#zoom-all").click()
    until(browser, lambda: len(quads(browser)) == all_slices)


def test_zoom_stays_inside_the_run(browser: Any) -> None:
    for _ in range(4):
        find(browser, "#earlier").click()
        find(browser, "#zoom-out").click()
    assert value(browser, "tx8.time()") == [0, cycles(browser)]


def test_the_heat_map_follows_the_time_shown(browser: Any) -> None:
    total = "tx8.models.links.data.bytes.reduce((a, b) => a + b)"
    everything = value(browser, total)
    find(browser, "#zoom-in").click()
    until(browser, lambda: 0 < value(browser, total) < everything)


@pytest.mark.parametrize(("link", "across"), [([0, 4], True), ([0, 1], False)])
def test_links_lie_as_the_tiles_do(browser: Any, link: list[int], across: bool) -> None:
    """Tile 4 is drawn to the right of tile 0, tile 1 below it, where y is down."""
    at = f"tx8.data.links.findIndex(([a, b]) => a === {link[0]} && b === {link[1]})"
    found = "(({x0, x1, y0, y1}) => [x0[i], x1[i], y0[i], y1[i]])(tx8.models.links.data)"
    x0, x1, y0, y1 = browser.execute_script(f"const i = {at}; return {found}")
    assert (x1 - x0 > 0.4, y1 - y0 > 0.4) == (across, not across)
    assert (y0 == y1 if across else x0 == x1) and max(map(abs, (x0, y0))) < 0.5
    ends = value(browser, "[tx8.models.links.data.text.length, tx8.models.mesh.y_range.end]")
    assert ends[0] == 48 and ends[1] < 0


def test_filters_of_tile_and_engine(browser: Any) -> None:
    rows = len(value(browser, "tx8.lanes"))
    find(browser, "#tile option[value='2']").click()
    lanes = value(browser, "tx8.lanes")
    assert 0 < len(lanes) < rows
    assert {lane["tile"] for lane in lanes} == {2}
    assert value(browser, "document.getElementById('spm-tile').value") == "2"
    find(browser, "#track-CORE").click()
    assert {lane["track"] for lane in value(browser, "tx8.lanes")} == {lane["track"] for lane in lanes} - {7}
    assert max(bottom for _, bottom, _ in quads(browser)) < len(lanes) - 1
    find(browser, "#track-CORE").click()
    assert value(browser, "tx8.lanes") == lanes


def test_filter_of_text(browser: Any) -> None:
    field = find(browser, "#text")
    field.send_keys("prog.s:12 ")
    texts = [row.text for row in browser.find_elements("css selector", "#lines tbody tr")]
    assert len(texts) == 1
    assert texts[0].startswith("prog.s:12")
    bright = sum(alpha == 1 for _, _, alpha in quads(browser))
    assert bright == lasting(browser, "tx8.data.lines[tx8.data.slice_line[i]].line === 12") > 0
    field.clear()
    field.send_keys("no such thing")
    assert not any(alpha == 1 for _, _, alpha in quads(browser))


def test_a_click_on_a_node_selects_it(browser: Any) -> None:
    row = browser.find_elements("css selector", "#nodes tbody tr")[2]
    node, name = int(row.get_attribute("data-id")), row.text.split()[0]
    row.click()
    selected = browser.find_elements("css selector", "#nodes tr[aria-selected=true]")
    assert [r.text.split()[0] for r in selected] == [name]
    lines = [
        int(r.get_attribute("data-id")) for r in browser.find_elements("css selector", "#lines tbody tr")
    ]
    assert lines
    assert {value(browser, f"tx8.data.lines[{at}].node") for at in lines} == {node}
    own = lasting(browser, f"tx8.data.kinds.node[tx8.data.slice_kind[i]] === {node}")
    assert sum(alpha == 1 for _, _, alpha in quads(browser)) == own > 0


def test_rows_are_chosen_by_keyboard_too(browser: Any) -> None:
    row = browser.find_elements("css selector", "#nodes tbody tr")[1]
    row.send_keys("\n")
    assert len(browser.find_elements("css selector", "#nodes tr[aria-selected=true]")) == 1


def test_a_click_on_a_slice_selects_its_line(browser: Any) -> None:
    from selenium.webdriver import ActionChains

    find(browser, "#tile option[value='1']").click()
    at = """
        const d = tx8.models.slices.data, longest = d.left.map((x, i) => d.right[i] - x);
        const i = longest.indexOf(Math.max(...longest));
        const view = Bokeh.index.get_one(tx8.models.timeline) ?? Bokeh.index[tx8.models.timeline.id];
        const frame = view.frame, box = document.getElementById('timeline').getBoundingClientRect();
        return [frame.x_scale.compute((d.left[i] + d.right[i]) / 2),
                frame.y_scale.compute(d.bottom[i] + 0.4), box.width / 2, box.height / 2]"""
    chart = find(browser, "#timeline")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    x, y, middle, centre = browser.execute_script(at)
    ActionChains(browser).move_to_element_with_offset(
        chart, int(x - middle), int(y - centre)
    ).click().perform()
    until(browser, lambda: value(browser, "tx8.shown.line") >= 0)
    line = value(browser, "tx8.data.lines[tx8.shown.line]")
    assert value(browser, "tx8.shown.node") == line["node"]
    assert find(browser, "#pointed").text.startswith("tile 1 ")
    assert f"{line['file']}:{line['line']}" in find(browser, "#pointed").text
    assert len(browser.find_elements("css selector", "#lines tr[aria-selected=true]")) == 1


def test_a_click_on_a_hazard_leads_to_its_line(browser: Any) -> None:
    find(browser, "#hazards tbody tr").click()
    assert value(browser, "tx8.data.lines[tx8.shown.line].line") == 10


def on_buffer(driver: Any) -> tuple[int, Any]:
    """Move to the middle of the buffer that is in use longest: its number, and the action."""
    from selenium.webdriver import ActionChains

    place = """
        const lives = tx8.livesShown(), d = tx8.models.lives.data;
        const length = d.left.map((x, i) => d.right[i] - x), i = length.indexOf(Math.max(...length));
        const view = Bokeh.index.get_one(tx8.models.buffers) ?? Bokeh.index[tx8.models.buffers.id];
        const frame = view.frame, box = document.getElementById('buffers').getBoundingClientRect();
        return [lives[i].at, frame.x_scale.compute((d.left[i] + d.right[i]) / 2) - box.width / 2,
                frame.y_scale.compute((d.bottom[i] + d.top[i]) / 2) - box.height / 2]"""
    chart = find(driver, "#buffers")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    number, x, y = driver.execute_script(place)
    return number, ActionChains(driver).move_to_element_with_offset(chart, int(x), int(y))


def test_buffers_of_a_tile(browser: Any) -> None:
    """They are where the image says, from the first to the last use, and the map shows the same tile."""
    find(browser, "#buffers-tile option[value='3']").click()
    assert value(browser, "document.getElementById('spm-tile').value") == "3"
    used = value(browser, "tx8.livesShown().map(({at, place}) => [at, tx8.data.live_start[place]])")
    drawn = value(
        browser,
        "(({left, bottom, top}) => left.map((x, i) => [x, bottom[i], top[i]]))(tx8.models.lives.data)",
    )
    assert drawn
    lives = value(browser, "tx8.data.lives")
    assert drawn == [
        [start, lives["first"][at], lives["first"][at] + lives["bytes"][at]] for at, start in used
    ]
    assert value(browser, "tx8.models.buffers.y_range.end") == lives["spm_bytes"]
    find(browser, "#spm-tile option[value='0']").click()
    assert value(browser, "document.getElementById('buffers-tile').value") == "0"
    assert value(browser, "tx8.models.lives.data.left") != [left for left, _, _ in drawn]


def test_a_buffer_is_described_and_selects_its_node(browser: Any) -> None:
    number, at = on_buffer(browser)
    at.click().perform()
    until(browser, lambda: value(browser, "tx8.shown.node") >= 0)
    lives = value(browser, "tx8.data.lives")
    assert value(browser, "tx8.shown.node") == lives["phase"][number]
    text = find(browser, "#buffers-pointed").text
    first = lives["first"][number]
    last = first + lives["bytes"][number] - 1
    role, node = lives["roles"][lives["role"][number]], lives["node"][number]
    assert text.startswith(
        f"{lives['name'][number]}: {role} of {node}, 32,768 bytes, {first:#x}..{last:#x}, "
    )
    matching = value(browser, "tx8.models.lives.data.alpha.filter((alpha) => alpha > 0.5).length")
    assert 0 < matching < value(browser, "tx8.livesShown().length")


def test_the_colours_of_roles_and_the_most_at_once(browser: Any) -> None:
    names = [each.text for each in browser.find_elements("css selector", "#roles span")]
    assert names == [*LIVE_ROLES]
    most = load_machine(None).spm.bytes
    assert f"At most {most:,} of {most:,} bytes hold something at once (100.0 %)" in (
        find(browser, "#buffers-peak").text
    )


def test_light_and_dark(browser: Any) -> None:
    def colours() -> list[str]:
        return value(
            browser,
            "[getComputedStyle(document.body).backgroundColor, tx8.models.timeline.border_fill_color]",
        )

    before = colours()
    find(browser, "#theme").click()
    assert all(a != b for a, b in zip(before, colours(), strict=True))
    find(browser, "#theme").click()
    assert colours() == before


def test_it_fits_the_window(browser: Any) -> None:
    assert value(browser, "document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.skipif("REPORT_SCREENSHOTS" not in os.environ, reason="REPORT_SCREENSHOTS names no folder")
def test_pictures(tmp_path: Path) -> None:
    """The pictures of docs/report.md; only on request, so that a run of the tests changes no file."""
    folder, tools = Path(os.environ["REPORT_SCREENSHOTS"]).resolve(), Path(sys.executable).parent
    for command in (
        [sys.executable, ROOT / "examples/networks/make.py", "block", "net"],
        [tools / "tx8cc", "-q", "net/block.onnx", "--dtype", "fp16", "-o", "block"],
        [tools / "tx8emu", "block/prog.bin", "--input", "image=net/image.npy", "--report", "block.html"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    driver = start()
    try:
        opened(driver, tmp_path / "block.html")
        height = value(driver, "document.documentElement.scrollHeight")
        pictured(driver, folder / "report.png", height)
        look = (
            "tx8.select({node: tx8.data.nodes.indexOf(arguments[0]), tile: 0}); tx8.setTime(...arguments[1])"
        )
        driver.execute_script(look, "conv1_norm", [8e3, 58e3])
        pictured(driver, folder / "report_node.png", 1180)
        driver.execute_script(look, "y.channel_norm", [57e3, 155e3])
        driver.execute_script("document.getElementById('theme').click()")
        pictured(driver, folder / "report_dark.png", 1180)
    finally:
        driver.quit()


def pictured(driver: Any, path: Path, height: int) -> None:
    driver.set_window_size(1280, height + 150)  # the window's own parts
    time.sleep(1.5)  # charts follow the size in a moment of their own
    driver.save_screenshot(str(path))


def test_nothing_was_fetched_and_nothing_complained(browser: Any) -> None:
    """The last test: it looks at all that the browser has noted."""
    complaints = [entry for entry in browser.get_log("browser") if entry["level"] not in ("INFO", "DEBUG")]
    assert complaints == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert sum(url.startswith("file:") for url in requests) == 1
