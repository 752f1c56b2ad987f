"""The files that a workload file names, wherever in it their names stand."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path

from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode, parse_yaml

FILE_KEYS = ("file", "glob", "chat_template")


def named_files(path: str, text: str) -> list[str]:
    """The files with texts that a workload names, as its findings name them, in order."""
    document = parse_yaml(text, path)
    folder = Path(path).parent
    names = (scalar.value for scalar in values_of(document.root, FILE_KEYS))
    return list(dict.fromkeys(name for value in names for name in matching_files(folder, value)))


def matching_files(folder: Path, name: str) -> list[str]:
    """The files that a `file:` or `glob:` means; none where there are none."""
    if "\0" in name:
        return []
    try:
        if (folder / name).is_file():
            return [str(folder / name)]
        found = sorted(glob.glob(name, root_dir=folder, recursive=True))  # noqa: PTH207 - Path.glob refuses absolute patterns
        return [str(folder / one) for one in found if (folder / one).is_file()]
    except (OSError, ValueError):
        return []


def nodes_of(root: YamlNode) -> Iterator[YamlNode]:
    """Every node of the document once, however often aliases name it."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, Sequence):
            waiting += one.items
        elif isinstance(one, Mapping):
            waiting += one.values.values()


def values_of(root: YamlNode, keys: tuple[str, ...]) -> list[Scalar]:
    """The values of these keys anywhere in the document, in the order of the file."""
    mappings = [node for node in nodes_of(root) if isinstance(node, Mapping)]
    found = [value for one in mappings for key in keys if isinstance(value := one.values.get(key), Scalar)]
    return sorted(found, key=lambda scalar: scalar.start)
