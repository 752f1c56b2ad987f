"""KV326: prefix caching is off for this model.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the model's configuration.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV326 = CodeEntry(
    "KV326",
    name="prefix caching is off for this model",
    what="The server does not reuse prefixes of this model, whatever the prompts are.",
    why=(
        "vLLM turns prefix caching off for models without attention, encoder-decoder models and most "
        "embedding models. The prompts do not cause this hit rate of 0 %."
    ),
    before="--model mamba-2.8b: 0 % hits",
    after="another model, or --enable-prefix-caching where vLLM allows it",
    remedies=(CodeRemedy("turn it on at your own risk where the server allows it: --enable-prefix-caching"),),
    ignore="You need this model, and not the reuse.",
)
