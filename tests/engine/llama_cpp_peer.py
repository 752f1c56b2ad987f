"""Requests to a llama.cpp server in process, one at a time: run with the Python of $XLLAMACPP_PYTHON, which has xllamacpp and gguf.

`python llama_cpp_peer.py JOB FOLDER`: the job has `params` of xllamacpp, a `window` or null, and `requests`. The cached tokens of
each are printed in a line, null where the server refused one.
"""

from __future__ import annotations

import json
import os
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlparse


def main() -> None:
    """Serve a job and end without waiting for the server."""
    import xllamacpp

    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "measure" / "servers"))
    from llama_peer import toy_gguf

    job, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    model = folder / f"toy-{job['window']}.gguf"
    if not model.exists():
        toy_gguf(model, job["window"])
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    for name, value in job["params"].items():
        setattr(params, name, value)
    params.warmup = False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.port = 0
    server = xllamacpp.Server(params)
    address = urlparse(server.listening_address)
    connection = HTTPConnection(address.hostname, address.port)
    cached: list[int | None] = []
    for request in job["requests"]:
        body = {**request, "logit_bias": [[request["force"], 1000]], "temperature": 0, "ignore_eos": True}
        connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        cached.append(answer["timings"]["cache_n"] if "timings" in answer else None)
    print(json.dumps(cached), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
