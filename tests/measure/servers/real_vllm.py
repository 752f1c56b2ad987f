"""A real vLLM of the environment behind $VLLM_PYTHON, with a toy model that is made here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.tokenizers_made import byte_tokenizer_json

BLOCKS = 400
_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "vocab_size": 512,
    "max_position_embeddings": 8192,
    "torch_dtype": "float32",
    "tie_word_embeddings": False,
}
_TEMPLATE = "{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}[assistant] "


def toy_model(folder: Path, config: Mapping[str, object] = _MODEL) -> Path:
    """Random weights (vLLM draws them), bytes as tokens."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(byte_tokenizer_json())
    told = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": _TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return folder


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def real_vllm(model: Path, *more: str, length: int = 8192) -> Iterator[str]:
    """Its URL; it is up when the block begins, and ends with it. `more` are arguments of its own."""
    port, events, replay = free_port(), free_port(), free_port()
    publish = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": f"tcp://*:{events}",
        "replay_endpoint": f"tcp://*:{replay}",
    }
    arguments = [
        *(os.environ["VLLM_PYTHON"], "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)),
        *("--served-model-name", "m", "--dtype", "float32", "--max-model-len", str(length), "--block-size", "32"),
        *("--num-gpu-blocks-override", str(BLOCKS), "--enforce-eager", "--enable-prompt-tokens-details"),
        *("--load-format", "dummy", "--host", "127.0.0.1", "--port", str(port)),
        *("--kv-events-config", json.dumps(publish)),
        *more,
    ]
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONHASHSEED": "0",
    }
    url = f"http://127.0.0.1:{port}"
    with (model.parent / f"vllm-{port}.log").open("wb") as log:
        server = subprocess.Popen(
            arguments, env={**os.environ, **settings}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait(server, url)
            yield url
        finally:
            server.terminate()
            server.wait(60)


def _wait(server: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + 600
    while time.monotonic() < until:
        assert server.poll() is None, "vLLM did not start: see its log beside the model"
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError("vLLM was not up in ten minutes")
