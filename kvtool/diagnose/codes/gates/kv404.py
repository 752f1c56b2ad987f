"""KV404: predicted time to first token beyond its gate.

Found by `kvtool.gate.evaluate.evaluate`.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV404 = CodeEntry(
    "KV404",
    name="predicted time to first token beyond its gate",
    what=(
        "A quantile of the TTFT that the latency model predicts for the configured accelerator is longer than what "
        "is allowed."
    ),
    why="It grows with the tokens that are not hit, and with the requests that wait before one.",
    before="gate: {ttft_p90: 50ms}    predicted p90 97 ms",
    after="gate: {ttft_p90: 50ms}    predicted p90 41 ms",
    remedies=(
        CodeRemedy("mend what the findings beside it name; kvtool profile shows where the tokens went"),
        CodeRemedy("allow more where the prompts have grown on purpose"),
    ),
    ignore="Never: change the gate instead.",
)
