"""The severity of a finding: one rule for what was measured and for what was only read in a file.

What decides is what a request loses: the tokens after the place that would be the same in other requests, as a part of the prompt
and as a number. A run counts them; of a template they are its constant text after the place, out of all of its constant text.
"""

from __future__ import annotations

from kvtool.diagnose.codes.ignores.kv001 import KV001
from kvtool.diagnose.codes.ignores.kv002 import KV002
from kvtool.diagnose.codes.layout.kv201 import KV201
from kvtool.diagnose.codes.run.kv302 import KV302
from kvtool.diagnose.codes.run.kv306 import KV306
from kvtool.diagnose.codes.structure.kv112 import KV112
from kvtool.diagnose.codes.structure.kv123 import KV123
from kvtool.diagnose.codes.structure.kv131 import KV131
from kvtool.diagnose.codes.structure.kv132 import KV132
from kvtool.diagnose.codes.structure.kv133 import KV133
from kvtool.diagnose.codes.values.kv101 import KV101
from kvtool.diagnose.codes.values.kv103 import KV103
from kvtool.diagnose.codes.values.kv105 import KV105
from kvtool.diagnose.codes.values.kv106 import KV106
from kvtool.diagnose.codes.values.kv107 import KV107
from kvtool.diagnose.diagnosis_thresholds import THRESHOLDS
from kvtool.results.choices import Severity


def severity_of(lost: float, prompt: float) -> Severity:
    """Return the severity of losing `lost` tokens of each request, out of the `prompt` tokens that it has."""
    if lost >= THRESHOLDS.error_tokens and lost >= THRESHOLDS.error_share * prompt:
        return "error"
    return "warning" if lost >= THRESHOLDS.warning_tokens and lost >= THRESHOLDS.warning_share * prompt else "info"


def severity_in_run(lost: int, requests: int, prompt_tokens: int) -> Severity:
    """Return the same of sums over a group: nothing can be lost by the first of its requests, for nobody came before."""
    return severity_of(lost / max(requests - 1, 1), prompt_tokens / max(requests, 1))


_LOSS = "a request loses at least {:.0f} % of its prompt tokens and at least {} tokens"
RULE: dict[Severity, str] = {
    "error": _LOSS.format(100 * THRESHOLDS.error_share, THRESHOLDS.error_tokens),
    "warning": _LOSS.format(100 * THRESHOLDS.warning_share, THRESHOLDS.warning_tokens),
    "info": "a request loses less, or nothing countable",
}
"""The rule in words; the first that applies counts."""
UNSURE_MOST: Severity = "warning"
"""The most that a finding is in a file that was only read, where neither a call nor a whole name shows that a value changes."""
UNSURE_BLOCKS = 8
"""Blocks of text that must follow such a value for certain; with fewer, it is information."""
_BY_COST = "By its cost. " + " ".join(f"{severity.capitalize()}: {when}." for severity, when in RULE.items())
_CHAT = "A warning or information, whatever it costs: no run has shown a loss yet."
EXCEPTIONS: dict[str, str] = {
    KV001.code: "A warning: the comment does nothing.",
    KV002.code: "An error: the comment does nothing, and someone relies on it.",
    KV101.code: f"{_BY_COST} In a file that is only read, a date without a time is information: it changes once a day.",
    KV103.code: "An error, whatever it costs: the text is declared stable, and it changes.",
    KV105.code: f"{_BY_COST} In a template, a loop number is information: it changes only when items are added.",
    KV112.code: f"{_BY_COST} A call that does not sort keys is information: the order changes only with the code.",
    KV123.code: _CHAT,
    KV131.code: f"{_BY_COST} Without a run it is a warning: the template may write only the date.",
    KV132.code: _CHAT,
    KV133.code: _CHAT,
    KV106.code: f"{_BY_COST} In a file that is only read it is information: a process has it in all of its requests.",
    KV107.code: f"{_BY_COST} In a template it is information, except if the variable is named like a flag.",
    KV201.code: (
        f"{_BY_COST} In a file that is only read, without a run, it is at most a {UNSURE_MOST}. There it is information if "
        f"nothing shows that the placeholder changes, or if fewer than {UNSURE_BLOCKS} blocks of text follow for certain. So is "
        "a value that the constructor of an object got. In a run it is information if no move can help: a user's question, or a "
        "value that ends its message."
    ),
    KV302.code: "Information, whatever it costs: do not trade security for speed.",
    KV306.code: "A warning for keys, cards and account numbers, else information. It costs no tokens.",
}
"""Where something else than tokens decides, too; in sentences."""


def severity_text(code: str) -> str:
    """Return how severe findings of a code are, in sentences; empty for those of gates, which have a level of their own."""
    return "" if code.startswith("KV4") else EXCEPTIONS.get(code, _BY_COST)
