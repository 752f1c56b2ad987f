"""KV332: host list full.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV332 = CodeEntry(
    "KV332",
    name="host list full",
    what=(
        "A prompt that llama.cpp's server saved in host memory was thrown away for newer ones before it was asked"
        " for again."
    ),
    why="--cache-ram is a limit of bytes; the oldest saved prompt goes first, whole.",
    before="--cache-ram 8192: 65,536 tokens of Llama 3.1 8B in f16",
    after="--cache-ram 65536",
    remedies=(CodeRemedy("a larger --cache-ram, or a smaller type of KV cache", "P0"),),
    ignore="The memory is not to be had.",
    wins=("host_list_full",),
)
