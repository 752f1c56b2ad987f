"""The files that a workload file names, wherever in it their names are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvtool.errors import KvtoolError
from kvtool.text.files.file_patterns import is_pattern, matching
from kvtool.text.files.root_folder import RootFolder
from kvtool.text.files.yaml_document import parse_yaml
from kvtool.text.files.yaml_nodes import Mapping, Scalar, Sequence, YamlNode

FILE_KEYS = ("file", "glob", "chat_template")


def named_files(path: str, text: str, *, allow_outside: bool = False, keys: tuple[str, ...] = FILE_KEYS) -> list[str]:
    """Return the files that a workload names with these keys, as its findings name them, in order; those outside of its repository
    or folder only where that is allowed."""
    document = parse_yaml(text, path)
    folder, root = Path(path).parent, RootFolder.of(path, allow_outside=allow_outside)
    names = (scalar.value for scalar in values_of(document.root, keys))
    return list(dict.fromkeys(name for value in names for name in matching_files(folder, value, root)))


def matching_files(folder: Path, name: str, root: RootFolder) -> list[str]:
    """Return the files that a `file:` or `glob:` means, as far as `root` holds them; none where there are none, or too many to
    look at."""
    if "\0" in name:
        return []
    try:
        found = [name] if (folder / name).is_file() else matching(name, folder, root) if is_pattern(name) else []
        return [str(folder / one) for one in found if (folder / one).is_file() and root.holds(folder / one)]
    except (OSError, ValueError, KvtoolError):
        return []


def nodes_of(root: YamlNode) -> Iterator[YamlNode]:
    """Yield every node of the document once, however often aliases name it."""
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
    """Return the values of these keys anywhere in the document, in the order of the file."""
    mappings = [node for node in nodes_of(root) if isinstance(node, Mapping)]
    found = [value for one in mappings for key in keys if isinstance(value := one.values.get(key), Scalar)]
    return sorted(found, key=lambda scalar: scalar.start)
