"""The drawing of sessions over time: every bar is inside, sums to its prompt, and names its cause."""

from __future__ import annotations

import re
from typing import get_args

from kvtool.accounting.misses.miss_sums import Missed, MissedRequest
from kvtool.accounting.misses.session_timelines import SessionTimelines
from kvtool.report.html.charts.session_timeline import PAINTS, session_timeline_section
from kvtool.report.html.headline import tiles
from kvtool.report.html.page_parts import DrawnSection
from kvtool.results.misses import CacheMisses, MissCause, ReportAgreement, SessionTimeline
from kvtool.results.report import Report

_BAR = re.compile(r'<rect x="([\d.]+)%" y="([\d.]+)" width="([\d.]+)%" height="([\d.]+)"[^>]*><title>([^,]+),')


def timelines(requests: int) -> list[SessionTimeline]:
    found = SessionTimelines()
    for number in range(requests):
        missed = [Missed("expired", 30 * number, None), Missed("unknown", 5, None)] if number % 3 == 1 else []
        lost = sum(each.tokens for each in missed)
        request = MissedRequest(100 + 40 * number, 100 + 40 * number - lost, 0, None, 700.0 * number, missed)
        found.add("s<1>", f"r{number}", request, number)
        found.add("healthy", f"h{number}", request._replace(missed=[]), number)
        found.add(None, f"n{number}", request, number)
    return found.results({4: ("expired", "replicas")})


def section(made: list[SessionTimeline]) -> DrawnSection | None:
    misses = CacheMisses.model_construct(timelines=made, calibration=ReportAgreement(requests=0, agree=0, advises=True))
    found = session_timeline_section(Report.model_construct(misses=misses), "w1")
    assert found is None or isinstance(found, DrawnSection)
    return found


def test_every_cause_has_a_paint_of_its_own() -> None:
    assert set(PAINTS) == set(get_args(MissCause))
    assert len(set(PAINTS.values())) == len(PAINTS)


def test_only_sessions_with_misses_and_times_are_kept() -> None:
    (one,) = timelines(12)
    assert (one.session, len(one.requests), one.left_out) == ("s<1>", 12, 0)
    assert [each.cause for each in one.requests if each.cause] == ["expired", "replicas", "expired", "expired"]
    (long,) = timelines(500)
    assert (len(long.requests), long.left_out) == (200, 300)


def test_bars_are_inside_and_sum_to_their_prompts() -> None:
    for count in (2, 12, 500):
        made = timelines(count)
        drawn = section(made)
        assert drawn is not None
        svg = str(drawn.drawings[0].svg)
        assert "s&lt;1&gt;" in svg
        bars: dict[str, list[tuple[float, float, float]]] = {}
        for *place, tip in _BAR.findall(svg):
            x, y, width, height = map(float, place)
            assert 0 <= x <= x + width <= 100.01
            assert y >= 0
            bars.setdefault(tip, []).append((x, y, height))
        requests = made[0].requests
        assert set(bars) == {each.request for each in requests}
        most = max(each.prompt for each in requests)
        for each in requests:
            height = sum(bar[2] for bar in bars[each.request])
            assert abs(height - 89 * each.prompt / most) < 0.2


def test_a_log_without_misses_has_no_drawing() -> None:
    assert section([]) is None


def test_a_page_simulates_nothing_where_the_log_does_not_hold_the_prompts() -> None:
    misses = CacheMisses.model_construct(read=80, prompt_tokens=100, predictable=False)
    (tile,) = tiles(Report.model_construct(misses=misses, totals=None))
    assert (tile.name, tile.value) == ("Hit rate, reported", "80.0%")
