"""What a notebook shows of a result: the answer, where tokens went and findings, in one harmless element."""

from __future__ import annotations

import re
from pathlib import Path

import kvtool
from kvtool.report.html.fragment import fragment
from tests.made_results import CASES, finding, group, report, result
from tests.report.html_results import full_report, full_result, numbers, parse
from tests.report.test_hostile_results import EVIL, UNSAFE, assert_harmless

TAGS = frozenset(
    "div style p b bdi dl dt dd br code table thead tbody tr th td svg rect ol li pre mark".split()  # noqa: SIM905 - shorter
)


def test_it_leads_with_the_answer_and_adds_up() -> None:
    found = parse(fragment(full_result()))
    [whole] = [node for node in found.children if node.tag == "div"]
    assert [node.words() for node in whole.all("dt")] == ["Hit rate", "Not reused", "Next"]
    assert whole.all("dd")[0].words().startswith("63.5% now")
    rows = [[cell.words() for cell in row.all("th") + row.all("td")] for row in whole.all("tbody")[0].all("tr")]
    assert sum(numbers([row[2] for row in rows])) == 2000
    assert round(sum(numbers([row[3] for row in rows])), 1) == 100.0
    assert [item.all("code")[0].words() for item in whole.all("li")] == ["KV101", "KV301"]
    assert "FAIL 1 of 2 checks (support)" in whole.words()


def test_it_is_one_element_that_does_nothing() -> None:
    for name in CASES:
        found = parse(fragment(CASES[name]()))
        assert [node.tag for node in found.children if node.tag != "#text"] == ["div"]
        assert {node.tag for node in found.all()} - {"#text"} <= TAGS
        for node in found.all():
            assert not [key for key in node.attributes if key.startswith("on") or key in ("style", "src", "href", "id")]
        rules = re.findall(r"^([^{\n]+)\{", found.all("style")[0].words().replace("} ", "}\n"), re.MULTILINE)
        assert len(rules) > 10
        assert all(selector.strip().startswith(".kvtool-result") for rule in rules for selector in rule.split(","))


def test_hostile_text_is_only_text() -> None:
    made = result(
        "fail",
        EVIL,
        full_report(EVIL, f"{EVIL}2", EVIL),
        findings=[finding(group="", path=EVIL, message=EVIL, fix=EVIL)],
    )
    text = fragment(made)
    assert not UNSAFE.search(text)
    assert_harmless(text)
    assert "<script" not in text
    found = parse(text)
    assert {node.tag for node in found.all()} - {"#text"} <= TAGS
    assert "<script>alert(1)</script>" in found.words()


def test_much_is_cut() -> None:
    many = report(findings=[finding(line=line) for line in range(1, 99)])
    made = result("none", "", *[many] * 12)
    found = parse(fragment(made))
    assert len(found.all("dl")) == 10
    assert "2 more workloads" in found.words()
    assert len(found.all("ol")[0].all("li")) == 5
    assert "93 more findings" in found.words()
    assert len(fragment(made)) < 100_000


def test_nothing_happened() -> None:
    found = parse(fragment(result("none", "", report(group(hit=0, reachable=0, tokens=1)))))
    assert not found.all("ol")


def test_results_of_the_api_have_it(tmp_path: Path) -> None:
    profiled = kvtool.profile(["Now: 10:01\n" + "be brief " * 40, "Now: 10:02\n" + "be brief " * 40])
    shown = profiled._repr_html_()
    assert shown is not None
    assert "Hit rate" in parse(shown).words()
    assert "be brief" not in shown
    profiled.save(tmp_path / "r.json")
    loaded = kvtool.load(tmp_path / "r.json")
    assert loaded._repr_html_() == shown
    assert loaded.reports[0] == profiled


def test_other_documents_have_none() -> None:
    from kvtool.results.notebook import notebook_html

    assert notebook_html(object()) is None
