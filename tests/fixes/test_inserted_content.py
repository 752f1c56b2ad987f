"""No move brings a line into or after content that a template inserts, whatever it is called."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kvtool.diagnose.slots import Slot
from kvtool.fixes.moves.move import move_targets
from kvtool.fixes.moves.move_target import MoveTarget
from kvtool.lint.findings.line_moves import movable, moved
from kvtool.results.finding import Finding
from kvtool.text.templates.template import compile_template
from kvtool.text.traced import Origin, Traced
from kvtool.workload.turn import Turn

RULES = [
    "Write short sentences.",
    "Never promise a refund.",
    "- Sign with the team.",
    "",
    "## Style",
    "Use plain words.",
]
LABELS = ["Customer message:", "## Text", "<doc>", "**Input**", ""]
CLOSERS = {"<doc>": "\n</doc>"}
PROSE = "My parcel did not arrive, and nobody answers my mails since Monday."


def rendered(template: str, **values: str) -> Traced:
    return compile_template(template, chat=False, origin=Origin("p.j2", part="messages[0] (system)")).render(values)


def target(template: str, variable: str = "t0") -> MoveTarget:
    before = template[: template.index(f"{{{{ {variable} }}}}")]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    return MoveTarget(Slot("p.j2", line, column, part="messages[0] (system)", variable=variable))


@given(
    rules=st.lists(st.sampled_from(RULES), min_size=1, max_size=6),
    more=st.lists(st.sampled_from(RULES), max_size=3),
    label=st.sampled_from(LABELS),
    value=st.sampled_from([PROSE, "Hello.\nWhere is it?", f"{PROSE}\n\n{PROSE}"]),
    name=st.sampled_from(["message", "x", "q7", "body"]),
    role=st.sampled_from(["system", "user", ""]),
    last=st.sampled_from(["", PROSE]),
)
def test_a_moved_line_stays_before_inserted_content(
    rules: list[str], more: list[str], label: str, value: str, name: str, role: str, last: str
) -> None:
    inserted = f"{label}\n{{{{ {name} }}}}{CLOSERS.get(label, '')}" if label else f"{{{{ {name} }}}}"
    template = "\n".join(["You help.", "Now: {{ t0 }}", *rules, inserted, *more]) + "\n"
    text = rendered(template, **{"t0": "2026-01-05", name: value})
    if role:
        turn = Turn("g", messages=[{"role": role, "content": text}], index=0)
        if last:
            question = Traced.of(last, Origin("w.yaml", part="messages[1] (user)", verbatim=False, variable="q"))
            turn.messages = [*(turn.messages or []), {"role": "user", "content": question}]
    else:
        turn = Turn("g", text=text, index=0)
    after = move_targets(turn, [target(template)])
    texts = [after.text] if after.text is not None else [message["content"] for message in after.messages or []]
    whole = "\n\n".join(str(each) for each in texts)
    assert whole.index("Now: 2026-01-05") < whole.index(value)
    assert value in whole  # in one piece
    assert sorted(whole.split()) == sorted("\n\n".join(filter(None, [str(text), last if role else ""])).split())


def test_a_line_goes_to_the_end_of_the_instructions() -> None:
    template = "You help.\nNow: {{ t0 }}\nBe brief.\nBe kind.\nMessage:\n{{ m }}\n"
    turn = Turn("g", messages=[{"role": "system", "content": rendered(template, t0="10:31", m="hi")}], index=0)
    after = move_targets(turn, [target(template)])
    assert after.messages is not None
    assert after.messages[0]["content"] == "You help.\nBe brief.\nBe kind.\nNow: 10:31\nMessage:\nhi\n"


@given(number=st.uuids(version=4))
def test_an_id_is_no_content_whatever_its_digits(number: UUID) -> None:
    template = "You help.\nNow: {{ t0 }}\nBe brief.\nRequest: {{ n }}\nBe kind to them.\n"
    turn = Turn("g", text=rendered(template, t0="10:31", n=str(number)), index=0)
    assert move_targets(turn, [target(template)]).text == (
        f"You help.\nBe brief.\nRequest: {number}\nBe kind to them.\nNow: 10:31\n"
    )


def test_content_itself_may_move_and_short_values_are_no_content() -> None:
    template = "{{ t0 }}\n\nRead this well.\nName: {{ n }}\nBe kind to them.\n"
    turn = Turn("g", text=rendered(template, t0=PROSE, n="Ada"), index=0)
    after = move_targets(turn, [target(template)])
    assert after.text is not None
    assert after.text.rstrip().endswith(PROSE)


@given(value=st.uuids().map(str))
def test_an_id_is_no_content_whatever_letters_it_has(value: str) -> None:
    template = "You help.\nNow: {{ t0 }}\nBe brief.\n{{ q }}\n"
    turn = Turn("g", text=rendered(template, t0="10:31", q=value), index=0)
    assert move_targets(turn, [target(template)]).text == f"You help.\nBe brief.\n{value}\nNow: 10:31\n"


def finding(path: str, line: int, column: int) -> Finding:
    return Finding.of("KV101", "error", "", path, line, column, "a clock", 100, "move it", confidence=1.0)


def test_lint_moves_a_line_to_the_end_of_the_instructions() -> None:
    for more in ["", "\nAnswer in one word.\n"]:
        for label in LABELS:
            inserted = f"{label}\n{{{{ anything }}}}{CLOSERS.get(label, '')}" if label else "{{ anything }}"
            text = f"You help.\nNow: {{{{ today }}}}\nBe brief in all that you say.\nBe kind.\n\n{inserted}\n{more}"
            found = movable(text, [finding("p.j2", 2, 6)], jinja=True)
            assert found[0].fix_key
            after = moved(text, found, jinja=True)
            assert after.index("Be kind.") < after.index("Now: {{ today }}") < after.index(inserted)
