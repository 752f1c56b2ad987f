"""The maximum as written leaves out what a provider never caches of these prompts, whatever else is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvtool


@pytest.mark.parametrize(("words", "reachable"), [(300, 0), (1_500, 3)])
def test_tokens_below_the_minimum_or_step_cannot_be_reached(
    words: int, reachable: int, tmp_path: Path, bytes_json: str
) -> None:
    """Four prompts with a number at their ends, at OpenAI: at least 1,024 tokens, in steps of 128; a token is a byte here."""
    path, text = tmp_path / "w.yaml", "a" * (words - 1) + "{{ n }}"
    group = f'  - {{name: g, text: "{text}", requests: 4, vars: {{n: {{counter: 1}}}}}}\n'
    path.write_text(f"version: 1\nengine: {{provider: openai}}\ngroups:\n{group}", "utf-8")
    report = kvtool.profile(str(path), tokenizer=bytes_json)
    (found,) = report.groups
    assert found.reachable_hit_rate == pytest.approx(reachable * (words // 128 * 128) / (4 * words))
    assert found.hit_rate == found.reachable_hit_rate
