"""A llama.cpp server in process, with a toy model that is made here: run with the Python of $XLLAMACPP_PYTHON, which needs
xllamacpp and gguf.

`python llama_peer.py FOLDER` prints the URL and serves until its standard input is closed.
"""

from __future__ import annotations

import sys
from pathlib import Path

_LAYERS, _WIDTH, _HEADS, _INNER, _CONTEXT = 2, 64, 4, 128, 4096
_SPECIAL = ("<unk>", "<s>", "</s>")
_TEMPLATE = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}[assistant] "


def toy_gguf(path: Path, window: int | None = None) -> None:
    """Random weights, bytes as tokens; with a window five of six layers have it."""
    import gguf
    import numpy as np

    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, *[gguf.TokenType.BYTE] * 256]
    writer = gguf.GGUFWriter(str(path), "llama" if window is None else "gemma3")
    layers = _LAYERS if window is None else 6
    if window is not None:
        writer.add_sliding_window(window)
        writer.add_key_length(_WIDTH // _HEADS)
        writer.add_value_length(_WIDTH // _HEADS)
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(_TEMPLATE)
    chance = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> None:
        writer.add_tensor(name, (chance.standard_normal(shape) * 0.1).astype(np.float32))

    weights("token_embd.weight", len(tokens), _WIDTH)
    weights("output.weight", len(tokens), _WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(_WIDTH, dtype=np.float32))
    norms = [("attn_norm", _WIDTH), ("ffn_norm", _WIDTH)]
    if window is not None:
        norms += [("post_attention_norm", _WIDTH), ("post_ffw_norm", _WIDTH)]
        norms += [(name, _WIDTH // _HEADS) for name in ("attn_q_norm", "attn_k_norm")]
    for layer in range(layers):
        for name, width in norms:
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(width, dtype=np.float32))
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"blk.{layer}.{name}.weight", _WIDTH, _WIDTH)
        weights(f"blk.{layer}.ffn_gate.weight", _INNER, _WIDTH)
        weights(f"blk.{layer}.ffn_up.weight", _INNER, _WIDTH)
        weights(f"blk.{layer}.ffn_down.weight", _WIDTH, _INNER)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Serve the model of a folder."""
    import xllamacpp

    path = Path(sys.argv[1]) / "toy.gguf"
    if not path.exists():
        toy_gguf(path)
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {"toy"}
    params.n_ctx, params.n_parallel, params.n_predict = _CONTEXT, 2, 16
    params.warmup = False
    params.endpoint_metrics = "metrics" in sys.argv[2:]
    params.cpuparams.n_threads = 1
    params.port = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
