"""Work that runs on this machine: forward passes, audits of logits, benchmarks."""

import kvtool.engine.model  # noqa: F401 - before torch: it says how torch's threads wait
