"""The charts as Bokeh models, without data: the page's script fills in the embedded data."""

from __future__ import annotations

from typing import Any

from bokeh import plotting
from bokeh.document import Document
from bokeh.models import ColumnDataSource
from bokeh.models.annotations import ColorBar, Span
from bokeh.models.callbacks import CustomJS
from bokeh.models.formatters import CustomJSTickFormatter, NumeralTickFormatter
from bokeh.models.mappers import LinearColorMapper
from bokeh.models.ranges import Range1d
from bokeh.models.tickers import AdaptiveTicker
from bokeh.models.tools import HoverTool
from bokeh.palettes import Cividis256

Figure = Any
"""Attributes of a Bokeh figure are made at run time."""

_LIGHT_TO_DARK = tuple(reversed(Cividis256))


def figures(cycles: float, ddr_rate: float, x: int, y: int) -> dict[str, Any]:
    """Return ``document``: all charts, as BokehJS embeds them; ``roots``: identity of each by its name.

    ``cycles``: the length of the run; ``ddr_rate``: the most bytes per cycle; ``x``, ``y``: tiles of the
    mesh.
    """
    time: Any = Range1d(start=0, end=cycles, bounds=(0, cycles), min_interval=min(10.0, cycles))
    time.name = "time"
    charts = [_timeline(time), _buffers(time), _scratchpad(time)]
    charts += [_ddr(time, ddr_rate), _noc(time), _mesh(x, y), _roofline()]
    document = Document()
    for chart in charts:
        document.add_root(chart)
    return {"document": document.to_json(deferred=False), "roots": {chart.name: chart.id for chart in charts}}


def _chart(name: str, height: int, **options: Any) -> Figure:
    tools = options.pop("tools", "xpan,xwheel_zoom,xbox_zoom,reset")
    new: Figure = plotting.figure
    chart = new(name=name, height=height, sizing_mode="stretch_width", tools=tools, **options)
    chart.toolbar.logo = None
    chart.toolbar.active_scroll = None  # the wheel scrolls the page until the tool is chosen
    return chart


def _over_time(name: str, time: Range1d, height: int, **options: Any) -> Figure:
    chart = _chart(name, height, x_range=time, **options)
    chart.xaxis.axis_label = "cycles"
    chart.xaxis.formatter = NumeralTickFormatter(format="0,0")
    for event in ("tap", "mousemove", "mouseleave"):
        chart.js_on_event(event, CustomJS(code=f"tx8.pointed('{name}', cb_obj)"))
    return chart


def _source(name: str, *columns: str) -> ColumnDataSource:
    return ColumnDataSource({column: [] for column in columns}, name=name)


def _image(chart: Figure, name: str) -> None:
    """Add an image of RGBA words that the script replaces."""
    source = _source(name, "image", "x", "y", "dw", "dh")
    chart.image_rgba("image", "x", "y", "dw", "dh", source=source)


def _timeline(time: Range1d) -> Figure:
    chart = _over_time("timeline", time, 440, y_range=(0, 1), tools="pan,wheel_zoom,box_zoom,reset")
    chart.yaxis.axis_label = "tile and engine"
    chart.ygrid.visible = False
    _image(chart, "cells")
    source = _source("slices", "left", "right", "bottom", "top", "fill", "alpha", "line")
    chart.quad(
        "left",
        "right",
        "top",
        "bottom",
        source=source,
        fill_color="fill",
        fill_alpha="alpha",
        line_color="line",
        line_width=0.5,
    )
    return chart


def _buffers(time: Range1d) -> Figure:
    chart = _over_addresses("buffers", time, 360)
    columns = ("left", "right", "bottom", "top", "fill", "alpha", "line")
    chart.quad(
        *("left", "right", "top", "bottom"),
        source=_source("lives", *columns),
        fill_color="fill",
        fill_alpha="alpha",
        line_color="line",
        line_width=0.5,
    )
    return chart


def _scratchpad(time: Range1d) -> Figure:
    chart = _over_addresses("spm", time, 320)
    _image(chart, "places")
    return chart


def _over_addresses(name: str, time: Range1d, height: int) -> Figure:
    """Make a chart of a scratchpad's addresses over time."""
    chart = _over_time(name, time, height, y_range=(0, 1))
    chart.yaxis.axis_label = "address in the scratchpad"
    chart.yaxis.formatter = CustomJSTickFormatter(code="return '0x' + tick.toString(16)")
    chart.yaxis.ticker = AdaptiveTicker(base=16, mantissas=[1, 2, 4, 8], desired_num_ticks=8)
    chart.ygrid.visible = False
    return chart


def _ddr(time: Range1d, rate: float) -> Figure:
    chart = _over_time("ddr", time, 240, y_range=(0, rate * 1.05))
    chart.yaxis.axis_label = "DDR, bytes per cycle"
    for way, colour, dash in (("read", "#0072B2", "solid"), ("written", "#D55E00", "dashed")):
        chart.step(
            "time",
            way,
            source=_shared(chart, "ddr_rates", "time", "read", "written"),
            mode="after",
            color=colour,
            line_dash=dash,
            line_width=1.5,
            legend_label=way,
        )
    chart.add_layout(Span(location=rate, dimension="width", line_color="#999999", line_dash="dotted"))
    _legend_above(chart)
    return chart


def _shared(chart: Figure, name: str, *columns: str) -> ColumnDataSource:
    """Return the chart's source with a name, which is made at the first request."""
    known = [r.data_source for r in chart.renderers if r.data_source.name == name]
    return known[0] if known else _source(name, *columns)


def _noc(time: Range1d) -> Figure:
    chart = _over_time("noc", time, 240)
    chart.y_range.start = 0
    chart.yaxis.axis_label = "NoC, bytes per cycle"
    source = _source("noc_rates", "time", "all", "busiest")
    for what, colour, dash in (("all", "#009E73", "solid"), ("busiest", "#CC79A7", "dashed")):
        label = "all links" if what == "all" else "busiest link"
        chart.step(
            "time",
            what,
            source=source,
            mode="after",
            color=colour,
            line_dash=dash,
            line_width=1.5,
            legend_label=label,
        )
    _legend_above(chart)
    return chart


def _legend_above(chart: Figure) -> None:
    legend = chart.legend[0]
    legend.orientation, legend.margin, legend.padding, legend.border_line_alpha = "horizontal", 0, 2, 0
    chart.add_layout(legend, "above")


def _mesh(x: int, y: int) -> Figure:
    chart = _chart(
        "mesh", 320, x_range=(-0.7, x - 0.3), y_range=(y - 0.3, -0.7), tools="", toolbar_location=None
    )
    chart.axis.visible = chart.grid.visible = False
    colours = LinearColorMapper(palette=_LIGHT_TO_DARK, low=0, high=1, name="heat")
    paint: Any = {"field": "bytes", "transform": colours}
    source = _source("links", "x0", "y0", "x1", "y1", "bytes", "text")
    lines = chart.segment("x0", "y0", "x1", "y1", source=source, line_width=9, line_color=paint)
    boxes = _source("tiles", "x", "y", "name", "text")
    tiles = chart.rect("x", "y", 0.42, 0.42, source=boxes, fill_color="#9aa5b1", line_color="#52606d")
    chart.text(
        "x",
        "y",
        "name",
        source=boxes,
        text_align="center",
        text_baseline="middle",
        text_color="#000000",
        text_font_size="12px",
    )
    chart.add_tools(HoverTool(renderers=[lines, tiles], tooltips="@text"))
    bar = ColorBar(color_mapper=colours, formatter=NumeralTickFormatter(format="0.0a"), title="bytes")
    chart.add_layout(bar, "right")
    return chart


def _roofline() -> Figure:
    chart = _chart(
        "roofline",
        320,
        x_axis_type="log",
        y_axis_type="log",
        x_range=(1, 10),
        y_range=(1, 10),
        tools="pan,wheel_zoom,box_zoom,reset",
    )
    chart.xaxis.axis_label = "operations per byte of DDR"
    chart.yaxis.axis_label = "operations per cycle, chip"
    roofs = _source("roofs", "xs", "ys", "name", "x", "y", "label")
    lines = chart.multi_line("xs", "ys", source=roofs, line_color="#999999", line_width=2)
    chart.text(
        "x",
        "y",
        "label",
        source=roofs,
        text_align="right",
        text_baseline="bottom",
        text_font_size="11px",
        text_color="#808a95",
    )
    source = _source("points", "x", "y", "name", "text", "fill", "size")
    points = chart.scatter(
        "x", "y", source=source, size="size", fill_color="fill", line_color="#52606d", fill_alpha=0.85
    )
    chart.add_tools(HoverTool(renderers=[points], tooltips="@text"))
    chart.add_tools(HoverTool(renderers=[lines], tooltips="@name"))
    return chart
