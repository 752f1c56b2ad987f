"""Serve two tools by MCP on standard input: `python mcp_server.py NAME SECONDS FILE`.

It answers when there is a file of that name, and after so many seconds at the latest.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

_TICK = 0.02
_SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def main(name: str, delay: float, ready: Path) -> None:
    """Answer until the input ends."""
    latest = time.monotonic() + delay
    while time.monotonic() < latest and not ready.exists():
        time.sleep(_TICK)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": _result(name, message)}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _result(name: str, message: dict[str, Any]) -> dict[str, Any]:
    match message.get("method"):
        case "initialize":
            version = message.get("params", {}).get("protocolVersion", "2025-06-18")
            about = {"name": name, "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            names = (f"{name}_find", f"{name}_keep")
            return {"tools": [{"name": each, "description": f"{each}.", "inputSchema": _SCHEMA} for each in names]}
    return {}


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
