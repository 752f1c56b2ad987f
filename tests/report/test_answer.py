"""The three lines that every report leads with: the rate, the line that loses most, and the one command to run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

import kvtool
from kvtool.config.command_line import CommandLine
from kvtool.report.answer import answer_of
from kvtool.report.reported_answer import reported_rate
from kvtool.report.views.facts import is_predictable
from kvtool.report.views.misses import view
from kvtool.report.views.money import view as money_view
from kvtool.results.finding import ExamplePair, Finding, LoggedPlace, Rerun
from kvtool.results.misses import CacheMisses, Certainty, MissCause, MissEvent, MissSum, TtlCosts
from kvtool.results.money import Money, Predicted
from kvtool.results.steps import Steps
from tests import made_results

FIXED = Rerun(
    group_before=0.4, group_after=0.9, total_before=0.4, total_after=0.9, group_alone=0.9, group_predicted=0.9
)


def fixed(**fields: Any) -> Finding:
    """A proven finding in a prompt file that people edit."""
    return made_results.finding(**({"rerun": FIXED, "fix_key": "a"} | fields))


def test_a_fix_that_was_proven_is_the_answer() -> None:
    finding = fixed(
        message="variable `now` (time) stops reuse of the text after it. It has 9 values and blocks 9 requests"
    )
    answer = answer_of(made_results.report(findings=[finding], editable=True), optimize=["optimize", "w.yaml"])
    assert answer.lines == [
        ("Hit rate", "40.0% now, 90.0% with the fix below (verified)"),
        (
            "Not reused",
            "500 tokens (50.0%) after prompts/support.md:3: variable `now` (time) stops reuse of the text after it",
        ),
        ("Next", "Preview the edit (add --write to apply it)"),
    ]
    assert answer.command == ("optimize", "w.yaml", "--allow", "P2")
    assert answer.finding is finding


@pytest.mark.parametrize(("lost", "told"), [(100, True), (249, True), (250, False), (900, False)])
def test_a_fix_that_mostly_wins_other_tokens_says_how_many(lost: int, told: bool) -> None:
    """Breakpoints that it sets win what the line alone does not lose."""
    (_, lines) = answer_of(made_results.report(findings=[fixed(tokens_lost=lost)], editable=True)).lines[1]
    assert lines.endswith(". Its fix wins 500 tokens") is told


def test_a_fix_of_several_findings_counts_once() -> None:
    places = [fixed(line=line, fix_key=key) for line, key in ((3, "a"), (5, "a"), (9, "b"))]
    answer = answer_of(made_results.report(findings=places, editable=True))
    assert answer.rate == "40.0% now, 90.0% with the 2 fixes below (verified)"


def test_what_kvtool_cannot_edit_is_edited_by_hand() -> None:
    made = made_results.report(findings=[fixed()])
    answer = answer_of(made, command=["profile", "w.yaml", "--json", "-b", "32"])
    assert answer.todo == "Make the fix below at prompts/support.md:3. Then run again"
    alone = FIXED.model_copy(update={"group_alone": FIXED.group_before})
    made = made_results.report(findings=[fixed(line=line, rerun=alone) for line in (3, 3, 4)])
    assert answer_of(made).todo == "Make the fixes below at prompts/support.md:3 and 4 together. Then run again"
    assert answer.command == ("profile", "w.yaml", "-b", "32")


def test_of_a_log_the_line_that_writes_it_is_to_be_changed() -> None:
    answer = answer_of(made_results.report(findings=[fixed(in_source=False)]))
    assert answer.todo == "Fix the code that writes this line. Then profile a new log"
    assert answer.command == ()
    place = LoggedPlace(record=2, part="messages[0] (system)", content=None, line=3)
    pair = ExamplePair(was="a.jsonl:1", now="a.jsonl:2", command="kvtool diff-prompts a.jsonl:1 a.jsonl:2")
    finding = fixed(in_source=False, path="a.jsonl", line=2, logged=place, example=pair)
    answer = answer_of(made_results.report(findings=[finding]))
    assert " after a.jsonl:2, messages[0] (system), line 3: " in answer.lost
    where = "messages[0] (system), line 3 in a.jsonl:2"
    assert answer.todo == f"Fix the code that writes {where}. See a request before and after"
    assert answer.command == ("optimize", "support.yaml", "--allow", "P2")


def test_several_fixes_and_groups_are_counted_and_named() -> None:
    findings = [fixed(), fixed(fix_key="b", line=9), fixed(fix_key="")]
    groups = made_results.group("support"), made_results.group("sales", hit=1000, reachable=1000)
    answer = answer_of(made_results.report(*groups, findings=findings))
    assert answer.rate.startswith("70.0% now, 90.0% with the 2 fixes below")
    assert "500 tokens (25.0%) in support after prompts/support.md:3: " in answer.lost


def test_a_cache_that_is_too_small_is_doubled() -> None:
    fates = {"hit": 400, "evicted": 600}
    group = made_results.group(hit=400, reachable=1000, fates=fates)
    made = made_results.report(group)
    made = made.model_copy(update={"config": made.config | {"capacity_blocks": 100}})
    answer = answer_of(made, command=["profile", "w.yaml", "--gpu-memory", "24GiB", "--capacity=100"])
    assert answer.rate == "40.0% now, 100.0% with an unlimited cache"
    assert answer.lost == "600 tokens (60.0%), mostly evicted"
    assert answer.command == ("profile", "w.yaml", "--capacity", "200")
    assert answer.change == "--capacity 200"


def test_only_a_cache_that_is_another_one_is_compared() -> None:
    for found in [[], [fixed()], [fixed(rerun=None, fix_key="", fix="merge the parts")]]:
        for config, said in [
            ({"capacity_blocks": 90}, ", 100.0% with an unlimited cache"),
            ({"capacity_blocks": None}, ""),
            ({"capacity_blocks": None, "ttl_seconds": 60.0}, ", 100.0% with one cache that evicts nothing"),
            ({"capacity_blocks": None, "replicas": 4}, ", 100.0% with one cache that evicts nothing"),
            ({"capacity_blocks": None, "rules_by_day": True}, ""),
            ({"capacity_blocks": None, "provider": "openai", "ttl_seconds": 60.0}, ""),
        ]:
            made = made_results.report(made_results.group(hit=400, reachable=1000), findings=found)
            rate = answer_of(made.model_copy(update={"config": made.config | config})).rate
            assert rate.startswith("40.0% now")
            assert rate.endswith(said)
            assert ("cache" in rate) == bool(said)


def test_what_is_well_is_held() -> None:
    group = made_results.group(hit=953, reachable=953)
    made = made_results.report(group)
    answer = answer_of(made, command=["profile", "w.yaml"])
    assert answer.rate == "95.3%, the maximum for these prompts as written"
    assert answer.command == ("profile", "w.yaml", "--min-hit-rate", "0.95")
    held = made.model_copy(update={"gates": [made_results.check("pass")]})
    assert answer_of(held).lines[-1][0] == "Not reused"


def test_nothing_is_said_where_there_is_nothing_to_say() -> None:
    whole = made_results.report(made_results.group(hit=1000, reachable=1000), gates=[made_results.check("pass")])
    assert [label for label, _ in answer_of(whole).lines] == ["Hit rate"]
    unfinished = made_results.report(findings=[fixed()], partial=True)
    assert (answer_of(unfinished).todo, answer_of(unfinished).command) == ("", ())


def test_a_fix_that_gained_nothing_is_not_the_next_step() -> None:
    finding = fixed(rerun=None, fix_key="", path="w.yaml", line=0, fix="sort the tools (tested: no gain)", no_gain=True)
    warning = finding.model_copy(update={"severity": "warning"})
    answer = answer_of(made_results.report(findings=[warning]), command=["profile", "w.yaml"])
    assert answer.todo == "Fail the build if the hit rate drops below today's"
    answer = answer_of(made_results.report(findings=[finding]), command=["profile", "w.yaml"])  # no gate keeps an error
    assert (answer.todo, answer.command) == ("Read what causes KV101", ("explain", "KV101"))
    by_hand = finding.model_copy(update={"tried": FIXED, "tier": "P1", "no_gain": False})
    assert answer_of(made_results.report(findings=[by_hand])).todo == "Make the fix below by hand. Then run again"


def test_a_finding_that_was_not_run_says_what_to_do() -> None:
    finding = fixed(rerun=None, fix_key="", path="w.yaml", line=0, message="too short", fix="merge the parts")
    answer = answer_of(made_results.report(findings=[finding]), command=["profile", "w.yaml"])
    assert answer.rate == "40.0% now"
    assert answer.lost == "500 tokens (50.0%): too short"
    assert (answer.todo, answer.command) == ("Merge the parts. Then run again", ("profile", "w.yaml"))


def test_a_command_is_proposed_without_flags_of_output() -> None:
    for flags in [
        ["--json"],
        ["-o", "report.html"],
        ["-oreport.html"],
        ["--output=report.html", "--output", "x.json"],
        ["--width", "60", "--plain", "--color=always"],
        ["-q"],
        ["--quiet", "--boundaries", "--show-text", "full"],
        ["--events", "e.jsonl", "--events-no-tokens", "--metrics=m.prom"],
    ]:
        kept = ["profile", "w.yaml", "--offline", "-b", "32", "--capacity", "100"]
        assert list(CommandLine([*kept[:2], *flags, *kept[2:]]).without_output()) == kept


def test_content_is_changed_only_after_all_moves() -> None:
    """The first command names no P3; where nothing but P3 wins, it lists what needs consent."""
    move, removal = fixed(tier="P2"), fixed(tier="P3", fix_key="b", line=9)
    both = answer_of(made_results.report(findings=[removal, move], editable=True))
    assert both.command == ("optimize", "support.yaml", "--allow", "P2")
    assert "P3" in both.todo
    alone = answer_of(made_results.report(findings=[removal], editable=True))
    assert alone.command == ("optimize", "support.yaml")
    assert alone.todo == "See which edits need your consent"


def test_the_fixes_are_counted_once() -> None:
    made = made_results.report(findings=[fixed()], editable=True).model_copy(update={"kept_fixes": 10})
    assert answer_of(made).rate == "40.0% now, 90.0% with 10 fixes (verified)"


PREDICTED = Predicted(
    requests=10,
    prompt_tokens=10_000,
    cached_tokens=7_100,
    reported_tokens=6_500,
    hit_rate=0.71,
    reachable_tokens=8_000,
    lost={},
    most_a_minute=0,
    tokens_per_own={},
)
STEPS = Steps(sessions=2, steps=9, broken=0, lost_tokens=0)


def missed(cause: MissCause, events: int = 1, place: str | None = None) -> CacheMisses:
    """Misses of one cause in a log whose reports differ from the rules."""
    sums = MissSum(events=events, tokens=500 * events, written=0, cost=None)
    event = MissEvent(
        request="4:0",
        session="a",
        time=None,
        gap=None,
        cause=cause,
        certainty="consistent",
        tokens=500,
        written=None,
        cost=None,
        detail="",
        place=place,
    )
    sides = {"requests": 10, "agree": 5, "advises": False, "differing": ["g"]}
    return CacheMisses.model_validate(
        {
            "requests": 10,
            "prompt_tokens": 10_000,
            "promised": 8_000,
            "read": 8_000 - 500 * events,
            "causes": {cause: sums},
            "events": [event],
            "rule_contradictions": [],
            "predictable": True,
            "calibration": sides,
            "unknown_fields": [],
        }
    )


@pytest.mark.parametrize("model", ["gpt-4o", "qwen3-14b"])
@pytest.mark.parametrize("cut", [1, 3])
def test_what_a_log_does_not_hold_is_unknown(tmp_path: Path, bytes_json: str, cut: int, model: str) -> None:
    """Most prompts of three are longer than their text in the log, or one is."""
    text = "Answer from the handbook, and quote the clause that you mean. " * 20
    lines = [
        {
            "request": {"model": model, "messages": [{"role": "user", "content": "hi there" if at < cut else text}]},
            "response": {"usage": {"prompt_tokens": 32_000 if at < cut else 1_250, "completion_tokens": 3}},
        }
        for at in range(3)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = kvtool.profile(str(tmp_path / "log.jsonl"), tokenizer=bytes_json)
    answer = answer_of(report)
    assert (report.totals.short_requests, report.lacks_prompts) == (cut, cut == 3)
    assert ("unknown: " in answer.rate, is_predictable(report)) == (cut == 3, cut == 1)
    assert bool(answer.lost or answer.command) is (cut == 1)


def test_the_screen_gives_a_change_or_says_that_none_is_advised() -> None:
    """Never both, and a change names the record and the message."""
    for cause in get_args(MissCause):
        report = made_results.report().model_copy(
            update={"misses": missed(cause, place="a.jsonl:5, messages[3] (system)")}
        )
        answer, section = answer_of(report), view(report)
        assert section is not None
        todo = "" if cause == "provider" else answer.todo
        if cause == "provider":  # the requests are not to be changed; the provider is to be asked, where there is one
            of_provider = report.model_copy(update={"config": {**report.config, "provider": "openai"}})
            assert (of_provider.hosted, report.hosted) == (True, False)
            assert ("ticket" in answer_of(of_provider).command, "ticket" in answer.command) == (True, False)
        none_advised = any(note.endswith("First find out why reports and rules differ.") for note in section.notes)
        assert none_advised is (not todo)
        assert ("a.jsonl:5, messages[3] (system)" in todo) is (
            bool(todo) and cause not in ("expired", "setting_changed", "key_changed", "answer_not_kept")
        )


def test_steps_are_stable_only_in_the_order_and_form_that_is_sent() -> None:
    for cause in get_args(MissCause):
        for events in [1, 3]:
            report = made_results.report().model_copy(update={"misses": missed(cause, events), "steps": STEPS})
            label, text = answer_of(report).lines[1]
            if cause in ("system_changed", "wire_form", "resumed"):
                requests = "1 request sends" if events == 1 or cause == "system_changed" else "3 requests send"
                same = "9 of 9 steps begin with the step before"
                assert (label, text) == ("Steps", f"{same}, but {requests} that text in another order or form")
            else:
                assert (label, text) == ("Stable", "9 of 9 steps begin with the step before")


def test_other_text_is_no_other_form_and_broken_steps_leave_the_costs_to_the_misses() -> None:
    """One sum of one unit, and one largest case: what was computed again is reported, not what the text makes likely."""
    misses = missed("system_changed", 1, "a.jsonl:4, system, line 3")
    proven = misses.model_copy(
        update={"events": [misses.events[0].model_copy(update={"certainty": "proven", "request": "a.jsonl:4:0"})]}
    )
    report = made_results.report().model_copy(update={"misses": proven, "steps": STEPS})
    assert answer_of(report).lines[1] == ("Stable", "9 of 9 steps begin with the step before")
    broken = STEPS.model_copy(update={"broken": 2, "lost_tokens": 700})
    said = answer_of(report.model_copy(update={"steps": broken})).lines[1]
    assert said == ("Breaks", "2 of 9 steps do not begin with the step before")
    assert "(700 tokens computed again)" in answer_of(made_results.report().model_copy(update={"steps": broken})).steps
    section = view(report)
    assert section is not None
    cells = {str(cell) for row in section.tables[-1].rows for cell in row}
    assert any(cell.startswith("system, line 3: system prompt changed") for cell in cells)


def test_causes_of_misses_hide_no_difference() -> None:
    """What is read less and more than predicted adds up to the difference, whatever causes the misses have."""
    for cause in get_args(MissCause):
        made = made_results.report().model_copy(update={"misses": missed(cause, 3), "predicted": PREDICTED})
        tables = money_view(made.model_copy(update={"difference": {"not_explained": 700, "tokenizer": 100}})).tables
        shown = {
            table.caption: [str(row[1]) for row in table.rows] for table in tables if "cached tokens" in table.caption
        }
        assert shown == {"Fewer cached tokens than predicted": ["700"], "More cached tokens than predicted": ["100"]}


def test_a_system_message_that_moves_is_another_order_unless_a_change_of_text_is_proven() -> None:
    for certainty in get_args(Certainty):
        found = missed("system_changed")
        events = [event.model_copy(update={"certainty": certainty}) for event in found.events]
        misses = found.model_copy(update={"events": events})
        told = answer_of(made_results.report().model_copy(update={"misses": misses, "steps": STEPS})).lines[1]
        assert told[0] == ("Stable" if certainty == "proven" else "Steps")


def test_what_caching_saved_or_cost_is_said() -> None:
    for without_cache, said in [
        (None, ""),
        ("1.00", ""),
        ("1.50", ", $0.50 saved by caching"),
        ("0.75", ", $0.25 more than without caching"),
    ]:
        misses, money = (
            missed("expired"),
            Money.model_construct(paid="1.00", currency="USD", priced_requests=10, without_cache=without_cache),
        )
        rate = reported_rate(made_results.report().model_copy(update={"money": money}), misses)
        assert rate == f"75.0% reported (7,500 of 10,000 prompt tokens); paid $1.00{said}"


def test_misses_of_one_cause_at_one_place_are_one_row_with_their_sums() -> None:
    """Requests that differ in nothing else say it once; one of its own keeps its gap."""
    found = missed("host_changed", 4)
    alike = [
        found.events[0].model_copy(
            update={"request": f"{at}:0", "tokens": 100 * at, "cost": f"0.0{at}", "detail": "b, not a"}
        )
        for at in (2, 4, 6)
    ]
    other = found.events[0].model_copy(update={"request": "9:0", "tokens": 700, "gap": 60.0, "detail": "a, not b"})
    section = view(
        made_results.report().model_copy(update={"misses": found.model_copy(update={"events": [*alike, other]})})
    )
    assert section is not None
    table = next(table for table in section.tables if table.caption == "Largest misses")
    assert [column.head for column in table.columns[1:4]] == ["requests", "after", "tokens"]
    assert [[str(cell) for cell in row[1:4]] for row in table.rows] == [["3", "", "1,200"], ["1", "60 s", "700"]]
    assert [str(row[0]) for row in table.rows] == ["support.yaml:2", "support.yaml:9"]
    assert table.more == 0


def test_requests_with_ids_and_another_token_at_one_place_are_one_row() -> None:
    """The place of a miss has its record, which the name of a request with an id does not have."""
    found = missed("system_changed", 3)
    events = [
        found.events[0].model_copy(
            update={
                "request": f"chatcmpl-{at}",
                "place": f"log.jsonl:{at}, system, line {line}",
                "detail": f"the system prompt changed: text differs after token {at}",
            }
        )
        for at, line in ((4, 1), (17, 1), (20, 3))
    ]
    section = view(made_results.report().model_copy(update={"misses": found.model_copy(update={"events": events})}))
    assert section is not None
    table = next(table for table in section.tables if table.caption == "Largest misses")
    assert [str(row[1]) for row in table.rows] == ["2", "1"]


def test_steps_whose_keys_change_their_order_are_not_stable() -> None:
    found = made_results.finding(code="KV112")
    report = made_results.report(findings=[found]).model_copy(update={"steps": STEPS})
    assert any(
        line[0] == "Steps" and line[1].endswith("JSON key order differs (KV112)") for line in answer_of(report).lines
    )


HEALTHY = "Nothing to change: reports and rules agree, and no request loses text that it can reuse"


def test_a_log_is_healthy_where_all_is_known_and_nothing_can_be_mended() -> None:
    for cause in get_args(MissCause):
        for agrees in [True, False]:
            found = missed(cause)
            misses = found.model_copy(update={"calibration": found.calibration.model_copy(update={"advises": agrees})})
            todo = answer_of(made_results.report().model_copy(update={"misses": misses})).todo
            assert (todo == HEALTHY) is (agrees and cause in ("first_use", "answer_not_kept", "partial_block"))


@pytest.mark.parametrize(
    "change",
    [
        {"predictable": False},
        {"unjudged": 1},
        {"ttl": TtlCosts(requests=10, paid="100", five_minutes="98", one_hour="120")},
    ],
)
def test_a_log_with_something_open_is_not_called_healthy(change: dict[str, Any]) -> None:
    found = missed("answer_not_kept")
    agreed = found.model_copy(update={"calibration": found.calibration.model_copy(update={"advises": True})})
    report = made_results.report()
    assert answer_of(report.model_copy(update={"misses": agreed})).todo == HEALTHY
    todo = answer_of(report.model_copy(update={"misses": agreed.model_copy(update=change)})).todo
    assert todo != HEALTHY
    assert ("Cache for 5 minutes" in todo) is ("ttl" in change)


@pytest.mark.parametrize(("severity", "healthy"), [("error", False), ("warning", False), ("info", True)])
def test_an_open_finding_is_not_called_healthy(severity: str, healthy: bool) -> None:
    found = missed("answer_not_kept")
    agreed = found.model_copy(update={"calibration": found.calibration.model_copy(update={"advises": True})})
    report = made_results.report(findings=[made_results.finding(severity=severity, rerun=None)])
    assert (answer_of(report.model_copy(update={"misses": agreed})).todo == HEALTHY) is healthy


def several(*causes: tuple[MissCause, str | None, int], **fields: Any) -> CacheMisses:
    """Misses of these causes, each with its price and its tokens."""
    events = [missed(cause).events[0].model_copy(update={"tokens": tokens}) for cause, _, tokens in causes]
    sums = {cause: MissSum(events=1, tokens=tokens, written=0, cost=cost) for cause, cost, tokens in causes}
    return CacheMisses.model_validate(
        missed(causes[0][0]).model_copy(update={"by_cause": sums, "events": events, **fields}).model_dump(by_alias=True)
    )


@pytest.mark.parametrize("priced", [True, False])
def test_next_mends_what_costs_most_of_what_can_be_mended_and_the_head_names_it(priced: bool) -> None:
    """By price where there is one, else by tokens; a cause after the first three is named where Next mends it."""
    costs = ["9", "8", "7", "2", "1"] if priced else [None] * 5
    tokens = [10, 11, 12, 13, 900] if priced else [900, 800, 700, 300, 100]
    causes: tuple[MissCause, ...] = ("provider", "unknown", "answer_not_kept", "model_changed", "tools_changed")
    misses = several(*zip(causes, costs, tokens, strict=True))
    answer = answer_of(made_results.report().model_copy(update={"misses": misses}))
    assert answer.todo.startswith("Keep one model for a session")
    assert "model changed" in answer.lost
    assert "tools changed" not in answer.lost
    assert answer.lost.endswith(", 2 more causes")


@pytest.mark.parametrize(("lost", "first"), [("0.40", "Fix the code"), ("0.60", "Keep one model")])
def test_a_proven_fix_comes_first_only_where_no_other_change_saves_more(lost: str, first: str) -> None:
    place = LoggedPlace(record=4, part="messages[0] (system)", content=None, line=3)
    finding = fixed(logged=place, in_source=False)
    money = Money.model_construct(
        paid="2.00",
        predicted="1.50",
        with_fixes="1.00",
        currency="USD",
        priced_requests=10,
        without_cache=None,
        by_group={},
        fixed_hit_rate=None,
        marks=[],
    )
    misses = several(("system_changed", "5", 400), ("model_changed", lost, 300))
    report = made_results.report(findings=[finding]).model_copy(update={"misses": misses, "money": money})
    assert answer_of(report).todo.startswith(first)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ('"ttl": "1h" in cache_control', 'Set "ttl": "1h" in cache_control, or send'),
        ('"prompt_cache_retention": "24h"', 'Set "prompt_cache_retention": "24h", or send'),
        (None, "Send the next request sooner: no time to live covers the gap"),
    ],
)
def test_what_expired_gets_a_setting_of_its_own_provider(setting: str | None, said: str) -> None:
    misses = missed("expired")
    event = misses.events[0].model_copy(update={"gap": 600.0, "longer_life": setting})
    report = made_results.report().model_copy(update={"misses": misses.model_copy(update={"events": [event]})})
    assert answer_of(report).todo.startswith(said)


def test_a_cause_is_not_said_twice_in_a_row() -> None:
    event = missed("tools_changed", place="a.jsonl:4, tools[0] write").events[0]
    event = event.model_copy(update={"request": "a.jsonl:4:0", "detail": "the order of the tools changed"})
    misses = missed("tools_changed").model_copy(update={"events": [event]})
    section = view(made_results.report().model_copy(update={"misses": misses}))
    assert section is not None
    told = str(section.tables[-1].rows[0][-1])
    assert "tools[0] write: the order of the tools changed" in told
    assert "tools changed, " not in told
