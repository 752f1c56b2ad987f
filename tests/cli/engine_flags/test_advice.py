"""Advice about sessions, tenants and lines, under the flags of the engine."""

from __future__ import annotations

from pathlib import Path

from tests.cli.engine_flags.conftest import TOKENS, Document, Shown

LONG = "You are the agent of a shop; be short, be kind, be right, and say so when you do not know. "
SESSIONS = """\
version: 1
vars: {{now: {{datetime: 1m}}, n: {{counter: 1}}}}
groups:
  - name: chat
    sessions: {{count: 3, turns: 4, output_tokens: 20}}
    messages:
      - {{role: system, text: "{system}"}}
      - {{role: user, text: "{user}"}}
"""


def test_the_gain_in_sessions_is_that_of_the_edit(folder: Path, document: Document) -> None:
    before = SESSIONS.format(system=r"Now: {{ now }}.\n" + LONG, user="And {{ n }}?")
    after = SESSIONS.format(system=LONG, user=r"And {{ n }}?\nNow: {{ now }}.")
    (folder / "before.yaml").write_text(before, encoding="utf-8")
    (folder / "after.yaml").write_text(after, encoding="utf-8")
    told, made = (document("--dry-run", name=f"{name}.yaml") for name in ("before", "after"))
    [finding] = [finding for finding in told["findings"] if finding["rerun"] is not None]
    assert finding["line"] == 7
    assert finding["rerun"]["group_before"] == told["groups"][0]["hit_rate"]
    assert finding["rerun"]["group_after"] == made["groups"][0]["hit_rate"] > told["groups"][0]["hit_rate"]


def test_a_line_that_is_all_there_is(folder: Path, shown: Shown, document: Document) -> None:
    """Moving it wins nothing, so no move is advised; it is as severe as what it costs."""
    variable = "topic: {choice: [amber, birch, cedar, delta, ember, fjord, grove, haven]}"
    text = (
        f"version: 1\nvars: {{{variable}}}\ngroups:\n  - {{name: g, requests: 8, text: 'On {{{{ topic }}}}: {LONG}'}}\n"
    )
    (folder / "line.yaml").write_text(text, encoding="utf-8")
    found = document("--dry-run", name="line.yaml")
    [finding] = [finding for finding in found["findings"] if finding["line"] == 4]
    assert (finding["severity"], finding["rerun"]) == ("warning", None)
    assert finding["fix"].startswith("no fix found (move ")
    assert finding["fix"].endswith(": tested, no gain)")
    assert "With fixes" not in shown("--dry-run", name="line.yaml")


def test_tenants_are_information(folder: Path, document: Document) -> None:
    groups = "".join(
        f"  - {{name: {name}, requests: 4, tenant: {name}, text: '{LONG}{{{{ n }}}}'}}\n" for name in ("a", "b")
    )
    (folder / "t.yaml").write_text(f"version: 1\nvars: {{n: {{counter: 1}}}}\ngroups:\n{groups}", encoding="utf-8")
    found = document("--dry-run", name="t.yaml")
    [finding] = [finding for finding in found["findings"] if finding["code"] == "KV302"]
    assert finding["severity"] == "info"
    assert finding["tokens_lost"] > 0.1 * found["groups"][1]["prompt_tokens"]


def test_groups_without_times_among_those_with_some(folder: Path, shown: Shown) -> None:
    timed = TOKENS + "    arrival: {process: uniform, rate: 5}\n"
    untimed = TOKENS.splitlines()[-1]
    (folder / "w.yaml").write_text(f"{timed}  - name: bulk\n{untimed}\n", encoding="utf-8")
    note = "no arrival times, so all requests start at second 0: bulk"
    assert note in shown("--dry-run")
    assert note not in shown("--dry-run", "--rules", "block-lru")
    assert note not in shown("--dry-run", "-g", "gen")
