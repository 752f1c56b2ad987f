"""Which text is to blame for tokens lost: its variable or line, and the place in the file."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from kvtool.accounting.ledger.alignment import DonorAlignment, EarlierPrompt, Gap, attribute
from kvtool.accounting.ledger.ledger import Ledger
from kvtool.accounting.ledger.totals import GroupTotals
from kvtool.accounting.plan import Plan
from kvtool.diagnose.causes import CauseBook, SlotCause
from kvtool.diagnose.codes.layout.kv201 import OTHER
from kvtool.diagnose.findings import is_candidate, is_declared_stable
from kvtool.diagnose.slots import MOST_SLOT_SETS, Slot, SlotSets
from kvtool.engine.config import EngineConfig
from kvtool.engine.model.configs.find_geometry import find_geometry
from kvtool.engine.prediction.latency import LatencyModel, find_accelerator
from kvtool.profiler.fix_gains import group_causes
from kvtool.profiler.profiler import Profiler, ReportOptions
from kvtool.profiler.run.purposes import explained_run
from kvtool.profiler.run.run_result import RunResult
from kvtool.profiler.run.run_setup import RunSetup
from kvtool.report.views.causes import costliest_causes
from kvtool.results.finding import Finding
from kvtool.text.templates.chat import ChatTemplate
from kvtool.text.terminal.progress import Progress
from kvtool.text.tokens.prompt import Prompt
from kvtool.text.tokens.tokenizer import Tokenizer
from kvtool.text.traced import Origin, Traced
from kvtool.workload.jobs import JobMaker
from kvtool.workload.logs.logs import LogOptions, LogSource, locate
from kvtool.workload.render import Renderer
from kvtool.workload.turn import Source, Turn
from kvtool.workload.yaml.yaml_source import load_yaml_workload
from tests import made_results

PLAN = Plan(EngineConfig(block_size=4), LatencyModel(find_geometry("llama-3.1-8b"), find_accelerator("h100")))
RULES = "Always be kind and brief; never promise what you cannot do."


def account(source: Source, renderer: Renderer) -> RunResult:
    return explained_run(RunSetup(PLAN, JobMaker(renderer, seed=0), Progress(None))).run(source)


def findings(source: Source, renderer: Renderer) -> list[Finding]:
    demands = ReportOptions()
    profiler = Profiler(source, renderer, PLAN, demands, progress=Progress(None), locate=locate, path="w")
    return [
        finding for finding in profiler.run().findings if finding.code != "KV204"
    ]  # where blocks end is not the point


def causes_of(source: Source, renderer: Renderer, *, group: str = "bot") -> list[SlotCause]:
    return account(source, renderer).causes.of_group(group)


def workload(tmp_path: Path, system: str, *, variables: str = "  now: {datetime: 1m}", requests: int = 4) -> Source:
    """A system message as a block, and the same question each time."""
    block = "\n".join(f"          {line}" for line in system.split("\n"))
    path = tmp_path / "w.yaml"
    path.write_text(
        f"version: 1\nvars:\n{variables}\ngroups:\n  - name: bot\n    requests: {requests}\n    messages:\n"
        f"      - role: system\n        text: |\n{block}\n      - {{role: user, text: 'What is new?'}}\n"
    )
    return load_yaml_workload(str(path))


def test_a_variable_in_a_message(tmp_path: Path, byte_renderer: Renderer) -> None:
    result = account(workload(tmp_path, "You help.\nIt is {{ now }}.\n" + RULES), byte_renderer)
    (cause,) = result.causes
    assert cause.slot.variable == "now"
    assert (cause.slot.path, cause.slot.line, cause.slot.column) == (str(tmp_path / "w.yaml"), 11, 17)
    assert cause.kind.code == "KV101"
    assert cause.requests == 3  # the first one had nothing to differ from
    assert cause.distinct == 3
    assert cause.excerpt[cause.value_start : cause.value_stop].startswith("20")
    assert cause.excerpt.startswith("It is 20")
    assert cause.blocked == result.ledger.fates()["blocked"]
    # All that follows the differing minute is the same: at least the rules and the question, a token for each byte.
    assert cause.blocked >= 3 * len(f".\n{RULES}\nuser:What is new?\n")
    assert cause.first_token >= len("system:You help.\nIt is ")


def test_its_finding_names_the_place_and_says_what_moving_gives(tmp_path: Path, byte_renderer: Renderer) -> None:
    (finding,) = findings(workload(tmp_path, "You help.\nIt is {{ now }}.\n" + RULES, requests=12), byte_renderer)
    assert (finding.code, finding.severity, finding.group) == ("KV101", "error", "bot")
    assert (finding.path, finding.line, finding.column) == (str(tmp_path / "w.yaml"), 11, 17)
    assert finding.in_source
    assert finding.width == len("{{ now }}")
    assert "`now`" in finding.message
    assert finding.rerun is not None
    assert finding.rerun.group_after > finding.rerun.group_before
    assert RULES not in finding.message + finding.fix


def test_each_of_two_variables_is_blamed_for_its_own_place(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The request number stands first; the topic, further down, is behind it in every prompt and blocks nothing itself."""
    variables = "  number: {counter: 100}\n  topic: {choice: [alpha, beta, gamma]}"
    source = workload(tmp_path, "No. {{ number }}\n" + RULES + "\nOn {{ topic }}.\n" + RULES, variables=variables)
    causes = causes_of(source, byte_renderer)
    assert [(cause.slot.variable, cause.blocked > 0, cause.share > 0) for cause in causes] == [
        ("number", True, True),
        ("topic", False, True),
    ]
    assert causes[0].slot.line == 11
    source = workload(tmp_path, RULES + "\nOn {{ topic }}.\n" + RULES, variables=variables, requests=9)
    (cause,) = causes_of(source, byte_renderer)
    assert (cause.slot.variable, cause.slot.line, cause.slot.column) == ("topic", 12, 14)


def test_two_volatile_lines_are_moved_together(tmp_path: Path, byte_renderer: Renderer) -> None:
    """One behind the other: to move the first one alone gives nothing."""
    variables = "  now: {datetime: 1m}\n  trace: {uuid: 4}"
    rules = "\n".join([RULES] * 4)
    source = workload(tmp_path, "{{ now }}\n{{ trace }}\n" + rules, variables=variables, requests=12)
    first, second = findings(source, byte_renderer)
    assert {(found.code, found.line) for found in (first, second)} == {("KV101", 11), ("KV102", 12)}
    by_code = {found.code: found for found in (first, second)}
    assert by_code["KV101"].tokens_lost > 11 * len(rules), "the first difference is to blame"
    assert by_code["KV102"].tokens_lost == 0, "and each token counts once"
    assert re.search(r"; behind text that differs first, where 2,\d{3} of its tokens count$", by_code["KV102"].message)
    assert first.severity == second.severity == "error"
    for found in (first, second):
        assert found.rerun is not None
        assert found.rerun.group_after > 0.7 > 0.1 > found.rerun.group_before


def test_two_volatile_lines_of_a_log(tmp_path: Path, byte_renderer: Renderer) -> None:
    rules = "\n".join([RULES] * 4)
    ids = [f"7a1d2f3e-5b6c-4d7e-8f90-{number * 7919:012x}" for number in range(8)]
    contents: list[object] = [f"Now: {stamp(number)}\nId: {ids[number]}\n{rules}" for number in range(8)]
    found = findings(log_of(tmp_path, contents), byte_renderer)
    assert [each.code for each in found] == ["KV101", "KV102"]
    assert found[0].rerun is not None
    assert found[0].rerun.group_after > 0.7


def test_what_a_user_asked_is_not_moved_into_another_message(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The question of each conversation has a number in it, and the answers to it are the same."""
    path = tmp_path / "log.jsonl"
    rows = [
        {
            "messages": [
                {"role": "system", "content": RULES},
                {"role": "user", "content": f"Is order {number} on its way to the right address?"},
                {"role": "assistant", "content": "Let me see. " * 9},
                {"role": "tool", "content": "It is. " * 9},
                {"role": "assistant", "content": "Yes."},
            ]
        }
        for number in range(1000, 1012)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = LogSource([str(path)], LogOptions())
    assert account(source, byte_renderer).ledger.fates()["blocked"] > 0
    (told,) = findings(source, byte_renderer)
    assert (told.code, told.rerun, told.fix_key) == ("KV201", None, "")
    assert "a user message, which is not for an application to rewrite" in told.fix


def test_an_image_that_is_all_of_a_message_is_not_called_text(tmp_path: Path, byte_renderer: Renderer) -> None:
    path = tmp_path / "log.jsonl"
    rows = [
        {
            "messages": [
                {"role": "system", "content": RULES},
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": f"https://example.com/{number}.png"}}],
                },
                {"role": "assistant", "content": "Let me see. " * 9},
                {"role": "tool", "content": "It is. " * 9},
                {"role": "assistant", "content": "Yes."},
            ]
        }
        for number in range(12)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (told,) = findings(LogSource([str(path)], LogOptions()), byte_renderer)
    assert told.fix.startswith("it is an image or a file of a user message"), told.fix


def test_identical_prompts_have_no_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    result = account(workload(tmp_path, "You help on 2025-03-01.\n" + RULES), byte_renderer)
    assert list(result.causes) == []
    assert "blocked" not in result.ledger.fates()


def test_what_looks_volatile_but_does_not_vary_is_never_a_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    constant = "Policy of 2024-01-01, id 123e4567-e89b-42d3-a456-426614174000, v1.2.3."
    source = workload(tmp_path, f"{constant}\nIt is {{{{ now }}}}.\n{constant}\n{RULES}")
    (cause,) = causes_of(source, byte_renderer)
    assert (cause.slot.variable, cause.slot.line) == ("now", 11)


def test_what_varies_at_the_end_blocks_nothing(tmp_path: Path, byte_renderer: Renderer) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(
        "version: 1\nvars:\n  now: {datetime: 1m}\ngroups:\n  - name: bot\n    requests: 4\n    segments:\n"
        f"      - text: '{RULES}'\n      - text: 'It is {{{{ now }}}}'\n"
    )
    assert causes_of(load_yaml_workload(str(path)), byte_renderer) == []


def log_of(tmp_path: Path, contents: list[object]) -> Source:
    path = tmp_path / "log.jsonl"
    rows = [
        {"messages": [{"role": "system", "content": content}, {"role": "user", "content": "What is new?"}]}
        for content in contents
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return LogSource([str(path)], LogOptions())


def stamp(number: int) -> str:
    return f"2025-01-02T10:{number:02d}:05Z"


@pytest.mark.parametrize("parts", [False, True])
def test_a_logged_timestamp(tmp_path: Path, byte_renderer: Renderer, parts: bool) -> None:
    texts = [f"You help.\nToday is {stamp(number)}.\n{RULES}" for number in range(10, 18)]
    contents: list[object] = [[{"type": "text", "text": text}] if parts else text for text in texts]
    source = log_of(tmp_path, contents)
    (cause,) = account(source, byte_renderer).causes
    assert cause.slot.logged
    assert cause.slot.part == "messages[0] (system)"
    assert cause.slot.line_in_text == 1
    assert cause.slot.content_part == (0 if parts else None)
    assert cause.kind.key == "timestamp_iso"
    assert (cause.requests, cause.distinct) == (7, 7)
    assert cause.origin is not None
    # The first prompt that differed is the log's second line; the column is that of the value in the JSON text.
    row = (tmp_path / "log.jsonl").read_text().splitlines()[1]
    assert locate(cause.origin, cause.offset) == (2, row.index(stamp(11)) + 1)
    (finding,) = findings(source, byte_renderer)
    assert (finding.line, finding.column) == (2, row.index(stamp(11)) + 1)
    assert not finding.in_source
    assert finding.rerun is not None
    assert finding.rerun.group_after > finding.rerun.group_before + 0.3


def test_values_of_two_kinds_in_one_frame_are_one_slot(tmp_path: Path, byte_renderer: Renderer) -> None:
    """What stands beside them tells that they are: a fix reaches each, whatever it looks like."""
    ids = ["0f8b8cb4-1d5a-4c9e-9f0a-5c1f6a7b8c9d", "7a1d2f3e-5b6c-4d7e-8f90-a1b2c3d4e5f6"]
    contents: list[object] = [f"Ref {value}\n{RULES}" for value in [stamp(1), ids[0], stamp(2), ids[1], stamp(3)]]
    source = log_of(tmp_path, contents)
    (cause,) = causes_of(source, byte_renderer, group="log")
    assert (cause.slot.line_in_text, cause.slot.mixed, cause.requests, cause.distinct) == (0, True, 4, 4)
    assert {kind.key for kind in cause.values.kinds} == {"timestamp_iso", "uuid"}
    (finding,) = findings(source, byte_renderer)
    assert finding.rerun is not None
    assert finding.rerun.group_after > finding.rerun.group_before + 0.3


def test_random_delimiters_are_one_slot_and_one_fix(tmp_path: Path, byte_renderer: Renderer) -> None:
    """Digits alone, letters alone, a date by chance: the slot is told by all of its values."""
    nonces = [
        "3f9a2b1c",
        "48213377",
        "deadbeef",
        "20261103",
        "c0ffee77",
        "1e500000",
        "9b8c7d6e",
        "abcdefab",
        "0a1b2c3d",
    ]
    contents: list[object] = [f"Data stands in:\n<data-{nonce}>\n{RULES}" for nonce in nonces]
    source = log_of(tmp_path, contents)
    (cause,) = causes_of(source, byte_renderer, group="log")
    assert cause.kind.code == "KV102"
    assert cause.requests == len(nonces) - 1
    (finding,) = findings(source, byte_renderer)
    assert finding.rerun is not None
    assert finding.rerun.group_after > 0.7


def test_the_first_token_is_where_the_earliest_difference_was(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The minutes 11, 12, 21, 13: the digit that differs is the second one, then the first one."""
    contents: list[object] = [f"It is {stamp(number)}\n{RULES}" for number in (11, 12, 21, 13)]
    (cause,) = account(log_of(tmp_path, contents), byte_renderer).causes
    assert cause.first_token == len("system:It is 2025-01-02T10:")
    assert (cause.requests, cause.distinct) == (3, 3)


def test_a_cause_is_a_candidate_only_where_it_costs(tmp_path: Path, byte_renderer: Renderer) -> None:
    result = account(log_of(tmp_path, [f"{stamp(number)}\n{RULES}" for number in (1, 2, 3)]), byte_renderer)
    (group,) = result.ledger.totals()
    (cause,) = result.causes
    assert is_candidate(cause, group)
    cause.blocked = group.prompt_tokens // 75
    assert is_candidate(cause, group)
    cause.blocked = group.prompt_tokens // 200
    assert not is_candidate(cause, group)


@pytest.mark.parametrize(
    "origin", [Origin("t.md", stable=True), Origin("t.md", stable=False), Origin("t.md", stable=None), None]
)
def test_what_is_declared_stable_is_so_by_its_origin(origin: Origin | None) -> None:
    cause = SlotCause("g", Slot("t.md", 1, 1), OTHER, origin, 0, "", 0, 0, 0)
    assert is_declared_stable(cause) is (origin is not None and origin.stable is True)


heads = st.lists(st.sampled_from(["Be kind.", "On 2024-01-01.", "v1.2.3", "id 42"]), max_size=3)


@given(heads, st.sampled_from(["{{ now }}", "Time: {{ now }}!", "x{{ now }}y"]), st.integers(3, 6))
def test_the_variable_is_found_wherever_it_stands(
    tmp_path_factory: pytest.TempPathFactory, byte_renderer: Renderer, head: list[str], line: str, requests: int
) -> None:
    source = workload(tmp_path_factory.mktemp("w"), "\n".join([*head, line, RULES]), requests=requests)
    (cause,) = causes_of(source, byte_renderer)
    assert cause.slot.variable == "now"
    assert cause.slot.line == 10 + len(head)
    assert cause.slot.column == 11 + line.index("{{")
    assert cause.requests == requests - 1


def prompt_of(text: str, tokenizer: Tokenizer) -> Prompt:
    return tokenizer.encode(Traced.of(text, Origin("t.md", part="prompt", text=text)), add_special_tokens=False)


def compared(
    tokenizer: Tokenizer, before: str, after: str, gaps: list[Gap], *, sessions: tuple[str, str] | None = None
) -> tuple[Turn, Prompt, DonorAlignment]:
    """Two prompts of one token for each character, aligned by hand."""
    old, new = prompt_of(before, tokenizer), prompt_of(after, tokenizer)
    first, second = sessions or (None, None)
    donor = EarlierPrompt(Turn("g", text=old.text, session=first), old, old.ids)
    return Turn("g", text=new.text, session=second), new, DonorAlignment(gaps[0].start, tuple(gaps), old.ids, donor)


def test_blame_share_and_prediction_by_hand(byte_tokenizer: Tokenizer) -> None:
    """Three differences: 27 tokens stand behind the first, 33 behind the first two, 17 behind all three."""
    before = "A: 10:31\n" + "x" * 18 + "\n" + "B: 1.2.3\n" + "y" * 28 + "\n" + "C: bob@a.de\n" + "z" * 11
    after = before.replace("10:31", "10:32").replace("1.2.3", "1.2.4").replace("bob", "eve")
    gaps = [Gap(7, 8, 7, 8, 27), Gap(35, 36, 35, 36, 33), Gap(69, 72, 69, 72, 17)]
    assert all(before[: gap.start] != after[: gap.stop] for gap in gaps)
    book = CauseBook()
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    assert book.add(turn, prompt, alignment) == ("blocked",) * 3
    clock, version, mail = sorted(book, key=lambda cause: cause.slot.line)
    assert [cause.kind.key for cause in (clock, version, mail)] == ["clock", "version", "email"]
    assert (clock.blocked, version.blocked, mail.blocked) == (27 + 33 + 17, 0, 0)
    assert clock.share == pytest.approx(27 + 33 / 2 + 17 / 3)
    assert version.share == pytest.approx(33 / 2 + 17 / 3)
    assert mail.share == pytest.approx(17 / 3)
    # What stands behind a value on its line goes with it: nothing behind the clock and the version, `@a.de` behind the name.
    assert book.predicted("g", [clock.slot]) == 27
    assert book.predicted("g", [version.slot, mail.slot]) == 0
    assert book.predicted("g", [clock.slot, mail.slot, version.slot]) == 27 + 33 + 17 - len("@a.de")
    assert book.predicted("another", [clock.slot]) == 0
    assert [(cause.requests, cause.seen) for cause in (clock, version, mail)] == [(1, 1), (0, 1), (0, 1)]


def test_what_is_predicted_comes_in_whole_blocks(byte_tokenizer: Tokenizer) -> None:
    """Seven tokens are known, 35 follow the clock, 33 the version: 7, 42 and 75 tokens reach 0, 2 and 4 blocks of 16."""
    before = "A: 10:31\n" + "x" * 26 + "\n" + "B: 1.2.3\n" + "y" * 32
    after = before.replace("10:31", "10:32").replace("1.2.3", "1.2.4")
    gaps = [Gap(7, 8, 7, 8, 35), Gap(43, 44, 43, 44, 33)]
    book = CauseBook(block_size=16)
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    book.add(turn, prompt, replace(alignment, known=7))
    clock, version = sorted(book, key=lambda cause: cause.slot.line)
    assert book.predicted("g", [clock.slot]) == (7 + 35) // 16 * 16
    assert book.predicted("g", [clock.slot, version.slot]) == (7 + 35 + 33) // 16 * 16


def test_the_last_token_is_never_predicted(byte_tokenizer: Tokenizer) -> None:
    """A prompt of exactly two blocks: all of it would be known, and the block of its last token is computed all the same."""
    before, after = "A: 10:31\n" + "x" * 23, "A: 10:32\n" + "x" * 23
    book = CauseBook(block_size=16)
    turn, prompt, alignment = compared(byte_tokenizer, before, after, [Gap(7, 8, 7, 8, 24)])
    assert len(prompt) == 32
    book.add(turn, prompt, replace(alignment, known=8))  # as if the clock had been known
    (clock,) = book
    assert book.predicted("g", [clock.slot]) == 16


def test_a_request_has_sixteen_names_at_most(byte_tokenizer: Tokenizer) -> None:
    before = "".join(f"{number:02d}: 10:31\n.........\n" for number in range(40))
    after = before.replace("10:31", "10:32")
    size = len(before) // 40
    gaps = [Gap(size * number + 8, size * number + 9, 0, 0, size - 1) for number in range(40)]
    book = CauseBook()
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    assert len(book.add(turn, prompt, alignment)) == 40
    assert len(list(book)) == 16
    total = 40 * (size - 1)
    assert sum(cause.blocked for cause in book) == total
    assert sum(cause.share for cause in book) == pytest.approx(total)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5), st.booleans()), min_size=1, max_size=30))
def test_shares_add_up_to_what_is_blocked(byte_tokenizer: Tokenizer, pieces: list[tuple[int, int, bool]]) -> None:
    before = after = "head\n"
    gaps: list[Gap] = []
    for run, slot, empty in pieces:
        start = len(after)
        before, after = before + f"{slot}: a", after + f"{slot}: b" * (not empty)
        gaps.append(Gap(start, len(after), len(before) - 4, len(before), run))
        before, after = before + "." * (run - 1) + "\n", after + "." * (run - 1) + "\n"
    book = CauseBook()
    turn, prompt, alignment = compared(byte_tokenizer, before, after, gaps)
    rungs = book.add(turn, prompt, alignment)
    want = sum(found.stop - found.start for found in attribute(alignment, rungs))
    assert sum(cause.blocked for cause in book) == want
    assert sum(cause._share_units for cause in book) == want * 720_720  # exactly, not as floats
    assert 0 <= book.predicted("g", [cause.slot for cause in book]) <= want


def test_volatility_is_changes_by_comparisons(byte_tokenizer: Tokenizer) -> None:
    """In one session the clock changed in two of three comparisons, between sessions in one of two."""
    book = CauseBook()
    for index, sessions in enumerate([("s", "s"), ("s", "s"), ("s", "t")]):
        before, after = (f"Now: 10:{30 + index + side}\n" + "x" * 20 for side in (0, 1))
        turn, prompt, alignment = compared(byte_tokenizer, before, after, [Gap(9, 10, 9, 10, 21)], sessions=sessions)
        book.add(turn, prompt, alignment)
    book.met(Turn("g", session="s"), Turn("g", session="s"))
    book.met(Turn("g"), Turn("g"))  # without sessions, each request is one of its own
    (cause,) = book
    assert cause.volatility_within == pytest.approx(2 / 3)
    assert cause.volatility_across == pytest.approx(1 / 2)


SYLLABLES = {300: "ab", 301: "c"}


def decoded(ids: npt.NDArray[np.int32]) -> str:
    """The bytes' letters by their ids in the vocabulary of `byte_tokenizer`, and two tokens more."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return "".join(SYLLABLES.get(int(token)) or alphabet[int(token)] for token in ids)


@pytest.mark.parametrize(("generated", "code"), [(False, "KV122"), (True, "KV124")])
def test_a_seam_is_the_same_text_in_other_tokens(byte_tokenizer: Tokenizer, generated: bool, code: str) -> None:
    """The donor has `ab` as one token, in its prompt's or its answer's ids; only decoding shows that it is the same text."""
    text = "Hello,abxxxxxxxxxxxx"
    prompt = prompt_of(text, byte_tokenizer)
    ids = np.concatenate([prompt.ids[:6], [300], prompt.ids[8:]]).astype(np.int32)
    donor_prompt = prompt_of(text[:6], byte_tokenizer)
    donor = EarlierPrompt(Turn("g", text=donor_prompt.text), donor_prompt, ids) if generated else None
    alignment = DonorAlignment(6, (Gap(6, 8, 6, 7, 12),), ids, donor)
    book = CauseBook(decoded)
    assert book.add(Turn("g", text=prompt.text), prompt, alignment) == ("seam",)
    (cause,) = book
    assert cause.kind.code == code
    assert cause.blocked == 2 + 12  # what stands in a seam is the same text
    other = DonorAlignment(6, (Gap(6, 8, 6, 7, 12),), np.where(ids == 300, 301, ids).astype(np.int32), donor)
    assert CauseBook(decoded).add(Turn("g", text=prompt.text), prompt, other) == ("blocked",)


def rows_to(tmp_path: Path, rows: list[dict[str, object]]) -> Source:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return LogSource([str(path)], LogOptions())


def test_a_shuffled_list_of_tools_is_one_cosmetic_cause(tmp_path: Path, byte_tokenizer: Tokenizer) -> None:
    tools = [{"type": "function", "function": {"name": f"tool_{name}", "description": RULES}} for name in "abcdef"]
    rows: list[dict[str, object]] = [
        {
            "tools": [*tools[number:], *tools[:number]],
            "messages": [{"role": "system", "content": RULES}, {"role": "user", "content": f"Question {number}"}],
        }
        for number in range(5)
    ]
    source = "{{ tools | tojson }}\n{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"
    renderer = Renderer(lambda: byte_tokenizer, lambda _: ChatTemplate("tools", source, {}))
    result = account(rows_to(tmp_path, rows), renderer)
    named = [cause for cause in result.causes if cause.slot.part == "tools"]
    assert [(cause.kind.key, cause.slot.kind, cause.seen) for cause in named] == [("tools_reordered",) * 2 + (4,)]
    assert result.ledger.fates()["cosmetic"] == named[0].blocked
    assert named[0].confidence == pytest.approx(0.95)


def test_a_window_is_one_cause_over_the_session(tmp_path: Path, byte_renderer: Renderer) -> None:
    turns = [{"role": ("user", "assistant")[i % 2], "content": f"Turn {i}: {RULES[i:]}"} for i in range(20)]
    rows: list[dict[str, object]] = [
        {"session_id": "s", "messages": [{"role": "system", "content": RULES}, *turns[2 * n : 2 * n + 5]]}
        for n in range(7)
    ]
    result = account(rows_to(tmp_path, rows), byte_renderer)
    worst = max(result.causes, key=lambda cause: cause.blocked)
    assert (worst.kind.code, worst.slot.part) == ("KV141", "history")
    assert worst.requests == 6
    assert worst.volatility_within > 0.5
    rows = [{**row, "session_id": f"s{number}"} for number, row in enumerate(rows)]
    others = account(rows_to(tmp_path, rows), byte_renderer)
    assert "KV141" not in {cause.kind.code for cause in others.causes}  # another session's history is another one


def test_a_value_in_a_growing_history_is_one_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The tool's answer says how long it took, rendered anew each turn: on another line, in a message that moves."""
    rows: list[dict[str, object]] = []
    for number in range(1, 9):
        notes = [{"role": "assistant", "content": f"note {index}"} for index in range(number)]
        status = "line\n" * number + f"Finished at 10:{number + 10}:00\n" + RULES * 3
        rows.append({
            "session_id": "s",
            "messages": [{"role": "user", "content": "Go"}, *notes, {"role": "tool", "content": status}],
        })  # fmt: skip
    result = account(rows_to(tmp_path, rows), byte_renderer)
    clocks = [cause for cause in result.causes if cause.kind.key == "clock"]
    assert [(cause.slot.part, cause.slot.words) for cause in clocks] == [("messages (tool)", "Finished at")]
    assert clocks[0].seen == 7


def test_an_optional_variable(tmp_path: Path, byte_renderer: Renderer) -> None:
    variables = "  now: {datetime: 1m}\n  beta: {choice: ['', 'Be bold. ']}"
    source = workload(tmp_path, "{{ now }}\n" + RULES + "\n{{ beta }}" + RULES, variables=variables, requests=12)
    (cause,) = [cause for cause in causes_of(source, byte_renderer) if cause.slot.variable == "beta"]
    assert cause.kind.code == "KV107"
    assert cause.values.absent == cause.seen > 0
    assert set(cause.values.examples) == {"", "Be bold. "}


def test_a_number_is_a_counter_only_in_a_series(tmp_path: Path, byte_renderer: Renderer) -> None:
    for numbers, code in ((range(100, 112), "KV105"), ([17, 4, 92, 55, 8, 31], "KV201")):
        source = log_of(tmp_path, [f"Now handling {number}.\n{RULES}" for number in numbers])
        (cause,) = account(source, byte_renderer).causes
        assert cause.kind.code == code


def test_what_stands_behind_a_label_is_named_by_it(tmp_path: Path, byte_renderer: Renderer) -> None:
    names = ["Ada", "Bob", "Cleo", "Dan"]
    (cause,) = account(log_of(tmp_path, [f"Customer: {name}\n{RULES}" for name in names]), byte_renderer).causes
    assert (cause.kind.code, cause.distinct) == ("KV104", 3)


def test_the_number_of_causes_is_bounded(byte_tokenizer: Tokenizer) -> None:
    book = CauseBook()
    for number in range(1100):
        text = "\n" * number + "at 10:32, still"
        turn, prompt, alignment = compared(byte_tokenizer, "", text, [Gap(number + 7, number + 8, 0, 1, 5)])
        book.add(turn, prompt, replace(alignment, donor=None))
    causes = book.of_group("g")
    assert len(causes) == 1025
    assert causes[0].slot.part == "other places"
    assert sum(cause.blocked for cause in causes) == 5 * 1100


def test_all_gaps_of_shuffled_documents_are_one_cause(tmp_path: Path, byte_renderer: Renderer) -> None:
    """The alignment keeps some documents in place and sees others go and come; none of that is a cause of its own."""
    chance = random.Random(5)
    words = [f"{first}{last}" for first in "bdfgklmn" for last in ("anda", "orin", "esto", "ulim")]
    documents = [
        "<document>\n" + "\n".join(" ".join(chance.choices(words, k=9)) + "." for _ in range(3)) + "\n</document>"
        for _ in range(6)
    ]
    contents: list[object] = ["\n".join(chance.sample(documents, 6)) + f"\n{RULES}" for _ in range(16)]
    causes = list(account(log_of(tmp_path, contents), byte_renderer).causes)
    assert {cause.kind.code for cause in causes} == {"KV113"}
    assert len(causes) == 1


def test_where_there_are_too_many_chains_the_weighty_ones_stay() -> None:
    """What stood behind a light one counts behind the slot that it begins with; no token is lost."""
    first, heavy = Slot("p.md", 1, 1), Slot("p.md", 2, 1)
    chains = SlotSets()
    chains.add((first, heavy), 1000)
    chains.promise((first, heavy), 900)
    for line in range(3, MOST_SLOT_SETS + 4):
        light = (first, Slot("p.md", line, 1))
        chains.add(light, 2)
        chains.promise(light, 1)
    assert len(chains.tokens) <= MOST_SLOT_SETS
    assert chains.tokens.total() == 1000 + 2 * (MOST_SLOT_SETS + 1)
    assert chains.tokens[first, heavy] == 1000
    assert chains.predicted([heavy]) == 0
    assert chains.predicted([first, heavy]) >= 900


def saying(tokenizer: Tokenizer, book: CauseBook, before: str, after: str, donor: Turn, turn: Turn) -> None:
    """Enter a request of this turn that says `after` on a line where its donor says `before`."""
    head, tail = "head\n", "\n" + "x" * 20
    old, new = (prompt_of(head + value + tail, tokenizer) for value in (before, after))
    gap = Gap(len(head), len(head + after), len(head), len(head + before), len(tail))
    book.add(turn, new, DonorAlignment(gap.start, (gap,), old.ids, EarlierPrompt(donor, old, old.ids)))


@given(st.integers(0, 8), st.integers(0, 80))
def test_constant_in_a_session_is_what_changes_in_a_tenth_of_its_comparisons_at_most(
    byte_tokenizer: Tokenizer, changes: int, others: int
) -> None:
    """Forty sessions have one of two words each; in one of them it changes, and in `others` comparisons it does not."""
    book, words = CauseBook(), ["gold", "free"]
    for number in range(40):
        before, after = words[number % 2], words[(number + 1) % 2]
        donor, turn = (Turn("g", session=f"s{number + side}") for side in (0, 1))
        saying(byte_tokenizer, book, before, after, donor, turn)
    same = Turn("g", session="s1")
    for number in range(changes):
        saying(byte_tokenizer, book, words[number % 2], words[(number + 1) % 2], same, same)
    for _ in range(others):
        book.met(same, same)
    (cause,) = book
    comparisons = changes + others
    constant = comparisons >= 2 and 10 * changes <= comparisons
    assert cause.kind.code == ("KV104" if constant else "KV201")


@pytest.mark.parametrize(("tenants", "by", "code"), [
    (3, "session", "KV105"),
    (3, "salt", "KV105"),
    (5, "salt", "KV105"),
    (3, None, "KV201"),
])  # fmt: skip
def test_a_tenant_stands_for_a_session_where_there_is_none(
    byte_tokenizer: Tokenizer, tenants: int, by: str | None, code: str
) -> None:
    """Tenants take turns, and each has a counter of its own: only by itself does it rise in even steps."""
    book = CauseBook()
    for number in range(1, 8):
        for tenant in range(tenants):
            start = 100 + tenant * tenant * 37 % 101  # three digits, in no order
            whose = {} if by is None else {by: f"t{tenant}"}
            turn = Turn("g", **whose)  # type: ignore[arg-type]
            saying(byte_tokenizer, book, "997", f"{start + number}", turn, turn)
    (cause,) = book
    assert cause.kind.code == code


def test_requests_of_one_tenant_are_not_of_one_session(byte_tokenizer: Tokenizer) -> None:
    book = CauseBook()
    turn = Turn("g", salt="t")
    saying(byte_tokenizer, book, "gold", "free", turn, turn)
    book.met(turn, turn)
    (cause,) = book
    assert (cause.volatility_within, cause.volatility_across) == (0.0, 0.5)
    session = Turn("g", salt="t", session="s")
    saying(byte_tokenizer, book, "gold", "free", session, session)
    assert (cause.volatility_within, cause.volatility_across) == (1.0, 0.5)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12), st.integers(0, 60_000))
def test_a_cause_has_a_row_from_a_thousandth_of_its_group_on(
    byte_tokenizer: Tokenizer, tails: list[int], others: int
) -> None:
    """Each cause is a line of its own, which blocks as many tokens as follow it; what has no row is in the sums all the same."""
    book = CauseBook()
    for number, tail in enumerate(tails):
        text = "head\n" * (number + 1) + "10:3{}\n" + "x" * tail
        at = 5 * (number + 1) + 4
        gap = Gap(at, at + 1, at, at + 1, tail + 1)
        book.add(*compared(byte_tokenizer, text.format(1), text.format(2), [gap]))
    blocked = [tail + 1 for tail in tails]
    total = sum(blocked) + others
    result = RunResult(Ledger(4, newline=lambda: np.zeros(0, dtype=bool)), book)
    groups = [GroupTotals(name="g", prompt_tokens=total)]
    found = group_causes(result, groups, None, locate=lambda _origin, _at: (1, 1), path="w")
    expected = sorted((tokens for tokens in blocked if 1000 * tokens >= total), reverse=True)
    assert [row.blame_tokens for causes in found.values() for row in causes.rows] == expected
    for causes in found.values():
        assert causes.left_out.causes == len(blocked) - len(expected)
        assert causes.left_out.blame_tokens == sum(blocked) - sum(expected)
    terminal = [tokens for tokens in expected if 100 * tokens >= total][:8]
    group = made_results.group("g", tokens=total, hit=0, reachable=0)
    assert [row.blame_tokens for causes in found.values() for row in costliest_causes(group, causes.rows)] == terminal


@pytest.mark.parametrize(
    ("line", "values", "code"),
    [
        ("Work below /home/{{ who }}/src only.", "[ada, bob, cleo]", "KV106"),
    ],
)
def test_a_variable_whose_values_and_surroundings_tell(
    tmp_path: Path, byte_renderer: Renderer, line: str, values: str, code: str
) -> None:
    variables = f"  who: {{choice: {values}}}"
    result = account(workload(tmp_path, f"{line}\n{RULES}", variables=variables, requests=24), byte_renderer)
    assert [cause.kind.code for cause in result.causes] == [code]
