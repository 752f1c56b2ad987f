"""The faults of `faults.py` on real vLLM and llama.cpp servers with toy models, and what `kvtool why` names first.

    VLLM_PYTHON=… XLLAMACPP_PYTHON=… python -m benchmarks.live_faults [--seed 0] [--only SERVER]

Several faults share a server, as each start takes a minute: the traffic of a fault runs while `kvtool why --for` watches.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from benchmarks.faults import Case, blamed, named_first
from benchmarks.live_cases import FAULTS, SLOWEST, Live, LiveFault
from benchmarks.live_watch import seen_by_watch
from kvtool.cli.app import run
from tests.measure.servers.engine_server import write_log
from tests.measure.servers.real_llama import real_llama
from tests.measure.servers.real_vllm import real_vllm, toy_model

_WINDOWED = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_hidden_layers": 6,
    "sliding_window": 128,
    "layer_types": [*["sliding_attention"] * 5, "full_attention"],
    "query_pre_attn_scalar": 32,
    "vocab_size": 512,
    "max_position_embeddings": 8192,
    "torch_dtype": "float32",
    "tie_word_embeddings": True,
}
"""Five of six layers have a window, as in Gemma 3."""
_ONE_PROCESS = ("--distributed-executor-backend", "uni")
"""A worker of its own would import all of vLLM once more."""


@contextmanager
def one_url(pick: Callable[[], str]) -> Iterator[str]:
    """Yield a URL at which each request goes to the server that is picked then."""

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
            kept = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            answer = httpx.request(self.command, pick() + self.path, content=body, headers=kept, timeout=SLOWEST)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def do_GET(self) -> None:
            self.forward()

        def do_POST(self) -> None:
            self.forward()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


SERVERS: dict[str, tuple[bool, Sequence[Sequence[str]]]] = {
    "plain": (False, [()]),
    "off": (False, [("--no-enable-prefix-caching",)]),
    "windowed": (True, [("--num-gpu-blocks-override", "2000")]),
    "long": (False, [("--block-size", "256", "--num-gpu-blocks-override", "60")]),
    "two": (False, [(), ()]),
    "llama": (False, [("metrics",)]),
    "llamas": (False, [("metrics",), ("metrics",)]),
}
"""Whether the model has windows, and the switches of each server."""


def arguments_of(each: LiveFault, on: Live, folder: Path) -> Iterator[str]:
    """The arguments of `kvtool why` beside the servers."""
    if each.has == "L":
        yield str(write_log(folder / "log.jsonl", on.rows))
    if "router" in each.name:
        yield from ("--router-block-size", "64")


def watched(each: LiveFault, on: Live, folder: Path) -> dict[str, Any]:
    """What is said of a fault: with a log afterwards, else beside the traffic."""
    if "U" in each.has:
        turns = cycle(on.urls)
        with one_url(lambda: next(turns)) as url:
            behind = replace(on, urls=[url])
            if "W" in each.has:
                return seen_by_watch(url, lambda: each.traffic(behind), seconds=int(_span(each)), events=False)
            each.traffic(behind)
            return said([url])
    if each.has == "R":
        return _replaced(each, on)
    if each.server == "llama":
        each.traffic(on)
        return said([*on.urls, *arguments_of(each, on, folder)])
    for at in range(len(on.urls)):
        on.reset(at)
    before = [httpx.get(f"{url}/metrics", timeout=60).text for url in on.urls]
    if each.has == "W":
        with_events = each.server != "off"
        return seen_by_watch(on.urls[0], lambda: each.traffic(on), seconds=int(_span(each)), events=with_events)
    if each.has == "E":
        done = threading.Event()
        span = _span(each)
        thread = threading.Thread(target=_after, args=(3.0, lambda: each.traffic(on), done))
        thread.start()
        found = said([*on.urls, *["--kv-events", "server"], "--for", f"{span:.0f}s"])
        assert done.is_set(), "the traffic took longer than the span"
        thread.join()
        return found
    each.traffic(on)
    folders = []
    for at, url in enumerate(on.urls):
        record = folder / f"{each.name} {each.has} {at}".replace(" ", "_")
        record.mkdir()
        (record / "metrics_before.txt").write_text(before[at])
        (record / "metrics_after.txt").write_text(httpx.get(f"{url}/metrics", timeout=60).text)
        (record / "models.json").write_text(httpx.get(f"{url}/v1/models", timeout=60).text)
        (record / "server_info.json").write_text(
            httpx.get(f"{url}/server_info?config_format=json", timeout=SLOWEST).text
        )
        folders += ["--recorded", str(record)]
    return said([*folders, *arguments_of(each, on, folder)])


def _replaced(each: LiveFault, on: Live) -> dict[str, Any]:
    """What is said where another process, fresh and at the same URL, answers before the span ends."""
    serving = [on.urls[0]]
    each.traffic(on)

    def restart() -> None:
        serving[0] = on.urls[1]
        each.traffic(replace(on, urls=[on.urls[1]]))

    with one_url(lambda: serving[0]) as url:
        done = threading.Event()
        thread = threading.Thread(target=_after, args=(2.0, restart, done))
        thread.start()
        found = said([url, "--for", "15s"])
        assert done.is_set(), "the traffic took longer than the span"
        thread.join()
    return found


def _span(each: LiveFault) -> float:
    """Seconds in which the traffic of a fault is surely done."""
    return 90.0 if "too small" in each.name else 45.0 if "fill" in each.name or "evictions" in each.name else 25.0


def _after(seconds: float, traffic: Callable[[], None], done: threading.Event) -> None:
    time.sleep(seconds)
    traffic()
    done.set()


def said(arguments: Sequence[str]) -> dict[str, Any]:
    """The document of `kvtool why`."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(["why", *arguments, "--json", "-q"])
    assert code == 0, err.getvalue()
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def _server(kind: str, model: Path, switches: Sequence[str]) -> AbstractContextManager[str]:
    if kind.startswith("llama"):
        return real_llama(model, *switches)
    return real_vllm(model, *_ONE_PROCESS, *switches)


def main() -> None:
    """Start each server once, and print what was named of its faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=list(SERVERS))
    parser.add_argument("--name", default="")
    parser.add_argument("--has", default="", help="only those that have it, such as W")
    given = parser.parse_args()
    right = count = 0
    for kind in given.only:
        windowed, switches = SERVERS[kind]
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            folder = Path(name) / "model"
            model = toy_model(folder, _WINDOWED) if windowed else toy_model(folder)
            folders = [model, *(Path(name) / f"model{at}" for at in range(1, len(switches)))]
            for each_folder in folders[1:]:
                each_folder.mkdir()
            used = folders if kind.startswith("llama") else [model] * len(switches)
            urls = [stack.enter_context(_server(kind, *each)) for each in zip(used, switches, strict=True)]
            for number, each in enumerate(
                one for one in FAULTS if one.server == kind and given.name in one.name and given.has in one.has
            ):
                folder = Path(name) / str(number)
                folder.mkdir()
                case = Case(random.Random(f"{each.name} {each.has} {given.seed}"), folder, stack)
                found = watched(each, Live(urls, case), folder)
                named = blamed(found) if each.expected is None else named_first(found)
                good = named == each.expected
                right, count = right + good, count + 1
                print(
                    f"{'ok  ' if good else 'MISS'} {kind} {each.has} {each.name}: {named} [{found['verdict']}]",
                    *(found["notes"] if "W" in each.has else ()),
                    flush=True,
                )
                if not good:
                    print(
                        json.dumps({key: found[key] for key in ("causes", "notes", "hit_rate")}, indent=1), flush=True
                    )
    print(f"live: {right} of {count}")


if __name__ == "__main__":
    main()
