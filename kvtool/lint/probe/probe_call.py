"""Calls the function that a probe names, in a Python process of its own, and writes what it returns to a file as JSON.

Arguments: the module (or the path of a `.py` file), the function, the folder to import from, the file to write. Nothing here
imports kvtool.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
from typing import Any


def _function(module: str, name: str) -> Any:
    if module.endswith(".py"):
        sys.path.insert(0, os.path.dirname(module))  # noqa: PTH120
        spec = importlib.util.spec_from_file_location(os.path.basename(module)[:-3], module)  # noqa: PTH119
        if spec is None or spec.loader is None:
            raise ImportError(f"{module} cannot be imported")
        found: Any = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = found
        spec.loader.exec_module(found)
    else:
        found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _plain(value: Any) -> Any:
    """A value as JSON has it; models of the client libraries say themselves what they are."""
    for method in ("model_dump", "to_dict", "dict"):
        if not isinstance(value, dict) and callable(getattr(value, method, None)):
            return getattr(value, method)()
    raise TypeError(f"it returned {type(value).__name__}, not text, a dict or a list")


def main(module: str, name: str, folder: str, output: str) -> None:
    sys.path[0] = folder
    value = _function(module, name)()
    if inspect.isawaitable(value):
        import asyncio

        async def finished() -> Any:
            return await value

        value = asyncio.run(finished())
    with open(output, "w", encoding="utf-8", errors="surrogatepass") as file:  # noqa: PTH123
        json.dump(value, file, default=_plain)


if __name__ == "__main__":
    main(*sys.argv[1:])
