"""A real llama.cpp of the environment behind $XLLAMACPP_PYTHON, with a toy model that is made there."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def real_llama(folder: Path, *switches: str) -> Iterator[str]:
    """Its URL; it ends with the block."""
    arguments = [os.environ["XLLAMACPP_PYTHON"], str(Path(__file__).with_name("llama_peer.py")), str(folder), *switches]
    with (folder / "llama.log").open("wb") as log:
        server = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            url = server.stdout.readline().decode().strip()
            assert url.startswith("http://"), (folder / "llama.log").read_text(errors="replace")
            yield url
        finally:
            server.stdin.close()
            server.wait(60)
            server.stdout.close()
