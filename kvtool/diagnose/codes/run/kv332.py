"""KV332: dropped from host memory.

Found by `kvtool.diagnose.run_findings.engine_findings`, from the fate of the tokens.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV332 = CodeEntry(
    "KV332",
    name="dropped from host memory",
    what="llama.cpp saved a prompt in host memory, and dropped it for newer prompts before its next request.",
    why="--cache-ram limits the bytes. llama.cpp drops the oldest saved prompt first.",
    before="--cache-ram 8192: 65,536 tokens of Llama 3.1 8B in f16",
    after="--cache-ram 65536",
    remedies=(CodeRemedy("raise --cache-ram, or choose a smaller KV cache type", "P0"),),
    ignore="There is no more memory.",
    wins=("host_list_full",),
)
