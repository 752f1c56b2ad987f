"""A time that `init` made up proves no rounding: how often it repeats then is made up, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtool import profile
from kvtool.text.files.yaml_document import parse_yaml
from kvtool.workload.yaml.made_up_values import is_made_up

WORKLOAD = """\
version: 1
vars:
  now: {datetime: 1m}%s
  question: {choice: ["a b", "c d", "e f"]}
groups:
  - name: chat
    requests: 12
    messages:
      - role: system
        text: '{"agent": "acme", "now": "{{ now }}", "rules": ["%s", "write three lines"]}'
      - {role: user, text: "{{ question }}"}
"""
RULES = "use the tool for orders and refunds and returns and never say a price before the order was found " * 4


@pytest.mark.parametrize("made_up", [True, False])
def test_only_a_stated_time_is_rounded(tmp_path: Path, made_up: bool) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD % ("  # made up: a clock, one minute a request" if made_up else "", RULES))
    fixes = [found.fix for found in profile(path).findings if found.code == "KV101"]
    assert any(fix.startswith("round the time") for fix in fixes) is not made_up
    assert fixes


NESTED = """\
version: 1
vars:
  user:
    object:
      name: {choice: [a, b]}
      seen: {datetime: 1m}  # made up: a clock, one minute a request

  plain: {counter: 1}
groups:
  - name: one
    vars:
      plain: {counter: 1}  # made up: 1, 2, 3
  - name: two
"""


def test_marks_count_for_their_variable_alone() -> None:
    document = parse_yaml(NESTED, "w.yaml")
    assert is_made_up(document, "two", "user.seen")
    assert is_made_up(document, "one", "plain")
    assert not is_made_up(document, "two", "plain")
    assert not is_made_up(document, "two", "")
    assert not is_made_up(document, "two", "other")
