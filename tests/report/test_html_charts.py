"""Charts of the HTML page: waterfall, fates, icicle, ticks."""

from __future__ import annotations

import pytest

from kvtool.accounting.ledger.fates import FATES
from kvtool.report.html.charts.icicle import layout
from kvtool.report.html.charts.scales import round_step, round_ticks
from kvtool.results.views import TreeNode
from tests.made_results import result
from tests.report.html_results import full_report, numbers, page, rows, table


def test_waterfall_adds_up() -> None:
    made = full_report(fates={"hit": 1, "blocked": 1, "unique": 1, "evicted": 0, "seam": 1993}, views=None)
    section = page(result("none", "", made)).id("w1-tokens")
    *parts, total = rows(table(section, "Prompt tokens"))
    assert [row[0] for row in parts] == [
        "hit",
        "same text, different tokens",
        "blocked (repeated after a change)",
        "unique text",
    ]
    assert sum(numbers([row[1] for row in parts])) == numbers([total[1]])[0] == 1996
    assert round(sum(numbers([row[2] for row in parts])), 1) == 100.0
    bars = [node for node in section.all("rect") if "least" in node.attributes.get("class", "")]
    whole, *lost, hit = [(numbers([bar.attributes["x"]])[0], numbers([bar.attributes["width"]])[0]) for bar in bars]
    assert whole == (0, 100)
    stop = 100.0
    for x, width in lost:
        assert x + width == pytest.approx(stop, abs=0.01)
        stop = x
    assert hit == pytest.approx((0, stop), abs=0.01)


def test_all_fates_have_a_paint_and_a_meaning() -> None:
    made = full_report(fates=dict.fromkeys(FATES, 10), views=None)
    found = page(result("none", "", made))
    paints = {node.attributes["id"]: node for node in found.all("lineargradient")}
    looks = set()
    for bar in found.id("w1-waterfall").all("rect"):
        if paint := bar.attributes.get("fill"):
            shape = paints[paint[5:-1]]
            vector = tuple(shape.attributes[key] for key in ("x2", "y2"))
            looks.add((vector, *(stop.attributes["class"] for stop in shape.all("stop"))))
    assert len(looks) == len(FATES)
    meanings = {row[3] for row in rows(table(found, "Prompt tokens"))}
    assert len(meanings) == len(FATES) + 1  # the sum has none


def node(parent: int | None, requests: int) -> TreeNode:
    return TreeNode(parent=parent, start=0, tokens=5, requests=requests, groups=[], path="", line=0, part="")


def test_icicle_layout_nests() -> None:
    nodes = [node(None, 6), node(0, 3), node(1, 1), node(0, 2), node(None, 2)]
    expected = [(0, 0.6), (0, 0.3), (0, 0.1), (0.3, 0.2), (0.6, 0.2)]
    spans = [number for span in layout(nodes, 10) for number in span]
    assert spans == pytest.approx([number for span in expected for number in span])


def test_icicle_layout_of_a_tree_that_contradicts_itself() -> None:
    spans = layout([node(7, 3), node(0, 9), node(1, 4), node(1, 14)], 1)
    assert all(top >= 0 and top + height <= 1 + 1e-9 for top, height in spans)


def test_round_ticks() -> None:
    assert round_ticks(2079, 4) == [0, 1000, 2000]
    assert round_ticks(0, 4) == [0]
    assert [round_step(last, 64) for last in (1, 64, 65, 130, 1_000_000)] == [1, 1, 2, 5, 20_000]
