"""A llama.cpp server in process, with a toy model that is made here: run with the Python of $XLLAMACPP_PYTHON, which needs
xllamacpp and gguf.

`python llama_peer.py FOLDER` prints the URL and serves until its standard input is closed.
"""

from __future__ import annotations

import sys
from pathlib import Path

_LAYERS, _WIDTH, _HEADS, _INNER, _CONTEXT = 2, 64, 4, 128, 4096
_KERNEL, _STATE = 3, 4
_SPECIAL = ("<unk>", "<s>", "</s>")
_TEMPLATE = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}[assistant] "


def toy_gguf(path: Path, window: int | str | None = None) -> None:
    """Random weights, bytes as tokens. Five of six layers have the window, or `lfm2` a state; `mamba` has six."""
    import gguf
    import numpy as np

    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, *[gguf.TokenType.BYTE] * 256]
    arch = "llama" if window is None else "gemma3" if isinstance(window, int) else window
    writer = gguf.GGUFWriter(str(path), arch)
    layers = _LAYERS if window is None else 6
    states = set(range(layers)) if arch == "mamba" else set(range(layers - 1)) if arch == "lfm2" else set()
    if isinstance(window, int):
        writer.add_sliding_window(window)
        writer.add_key_length(_WIDTH // _HEADS)
        writer.add_value_length(_WIDTH // _HEADS)
    if arch == "lfm2":
        writer.add_shortconv_l_cache(_KERNEL)
    if arch == "mamba":
        writer.add_ssm_conv_kernel(_KERNEL)
        writer.add_ssm_inner_size(_INNER)
        writer.add_ssm_state_size(_STATE)
        writer.add_ssm_time_step_rank(_STATE)
    writer.add_context_length(_CONTEXT)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv([0 if layer in states else _HEADS for layer in range(layers)] if states else _HEADS)
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

    def ones(name: str, width: int) -> None:
        writer.add_tensor(name, np.ones(width, dtype=np.float32))

    weights("token_embd.weight", len(tokens), _WIDTH)
    weights("output.weight", len(tokens), _WIDTH)
    ones("token_embd_norm.weight" if arch == "lfm2" else "output_norm.weight", _WIDTH)
    norms = [("attn_norm", _WIDTH)] + [("ffn_norm", _WIDTH)] * (arch != "mamba")
    if isinstance(window, int):
        norms += [("post_attention_norm", _WIDTH), ("post_ffw_norm", _WIDTH)]
    for layer in range(layers):
        of = f"blk.{layer}."
        for name, width in norms:
            ones(f"{of}{name}.weight", width)
        if arch == "mamba":
            weights(f"{of}ssm_in.weight", 2 * _INNER, _WIDTH)
            weights(f"{of}ssm_conv1d.weight", _INNER, _KERNEL)
            weights(f"{of}ssm_conv1d.bias", _INNER)
            weights(f"{of}ssm_x.weight", 3 * _STATE, _INNER)
            weights(f"{of}ssm_dt.weight", _INNER, _STATE)
            weights(f"{of}ssm_dt.bias", _INNER)
            writer.add_tensor(f"{of}ssm_a", -np.ones((_INNER, _STATE), dtype=np.float32))
            ones(f"{of}ssm_d", _INNER)
            weights(f"{of}ssm_out.weight", _WIDTH, _INNER)
            continue
        if layer in states:
            weights(f"{of}shortconv.in_proj.weight", 3 * _WIDTH, _WIDTH)
            weights(f"{of}shortconv.conv.weight", _WIDTH, _KERNEL)
            weights(f"{of}shortconv.out_proj.weight", _WIDTH, _WIDTH)
        else:
            for name in ("attn_q_norm", "attn_k_norm") if window is not None else ():
                ones(f"{of}{name}.weight", _WIDTH // _HEADS)
            for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
                weights(f"{of}{name}.weight", _WIDTH, _WIDTH)
        weights(f"{of}ffn_gate.weight", _INNER, _WIDTH)
        weights(f"{of}ffn_up.weight", _INNER, _WIDTH)
        weights(f"{of}ffn_down.weight", _WIDTH, _INNER)
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
