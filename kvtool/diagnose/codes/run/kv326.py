"""KV326: prefix caching is off for this model.

Found by `kvtool.diagnose.layer_group_findings.group_findings`, from the model's configuration.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy

KV326 = CodeEntry(
    "KV326",
    name="prefix caching is off for this model",
    what="The server does not reuse prefixes of this model, whatever prompts look like.",
    why=(
        "vLLM switches prefix caching off for models without attention, encoder-decoder models and most embedding models. "
        "A hit rate of 0 % is then no fault of prompts."
    ),
    before="--model mamba-2.8b: 0 % hits",
    after="another model, or --enable-prefix-caching where vLLM allows it",
    remedies=(CodeRemedy("switch it on at your own risk where the server allows it: --enable-prefix-caching"),),
    ignore="The model is what is wanted, and reuse is not.",
)
