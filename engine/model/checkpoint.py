"""The safetensors files of a Hugging Face folder as one state dict, which reads a tensor when it is first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol, cast

import torch
from safetensors import SafetensorError, safe_open

from kvtool.engine.engine_error import EngineError
from kvtool.engine.model.configs.json_object import JsonObject
from kvtool.engine.model.parameter_shapes import Shape

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class _Slice(Protocol):
    def get_shape(self) -> list[int]: ...
    def get_dtype(self) -> str: ...


class _File(Protocol):
    """An open safetensors file: its header is read and checked, its data are mapped."""

    def keys(self) -> list[str]: ...
    def get_slice(self, name: str) -> _Slice: ...
    def get_tensor(self, name: str) -> torch.Tensor: ...


class Checkpoint(Mapping[str, torch.Tensor]):
    """One file, or the shards that an index names. Opening it checks everything but the numbers themselves."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._file_of: dict[str, _File] = {}
        if (self.folder / SINGLE_FILE).is_file():
            self._add(self.folder / SINGLE_FILE)
        elif (self.folder / INDEX_FILE).is_file():
            self._add_shards(self.folder / INDEX_FILE)
        else:
            raise EngineError(
                f"{self.folder}: the folder has neither {SINGLE_FILE} nor {INDEX_FILE}",
                hint="use safetensors, or --load-format dummy, which needs no weights",
            )
        self.shapes: dict[str, Shape] = {}
        self.dtypes: dict[str, torch.dtype] = {}
        for name, file in self._file_of.items():
            header = file.get_slice(name)
            self.shapes[name] = tuple(header.get_shape())
            if header.get_dtype() not in _DTYPES:
                raise EngineError(
                    f"{self.folder}: {name} has the unsupported dtype {header.get_dtype()}",
                    hint=f"kvtool reads {', '.join(_DTYPES)}",
                )
            self.dtypes[name] = _DTYPES[header.get_dtype()]

    def __len__(self) -> int:
        return len(self._file_of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._file_of)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._file_of[name].get_tensor(name)

    def _add(self, path: Path) -> list[str]:
        """Open a file; return the names of its tensors."""
        try:
            file = cast("_File", safe_open(path, framework="pt"))
        except SafetensorError as error:
            raise EngineError(
                f"{path}: damaged, cut off or not safetensors ({error})", hint="download the file again"
            ) from error
        except OSError as error:
            raise EngineError(f"{path}: {error.strerror or error}") from error
        names = list(file.keys())
        for name in names:
            if name in self._file_of:
                raise EngineError(f"{path}: {name} is also in another shard")
            self._file_of[name] = file
        return names

    def _add_shards(self, index: Path) -> None:
        try:
            shard_of = JsonObject.read(index).text_map("weight_map")
        except EngineError as error:
            raise EngineError(f"{index}: {error.message}") from error
        shards = sorted(set(shard_of.values()))
        for shard in shards:
            if Path(shard).name != shard:
                raise EngineError(f"{index}: {shard[:80]!a} is not the name of a file in its folder")
        missing = [shard for shard in shards if not (self.folder / shard).is_file()]
        if missing:
            raise EngineError(
                f"{index} names the missing file {missing[0]!a}"
                + (f" ({len(missing)} of {len(shards)} shards are missing)" if len(missing) > 1 else ""),
                hint="download the missing files",
            )
        for shard in shards:
            named = {name for name, file in shard_of.items() if file == shard}
            found = set(self._add(self.folder / shard))
            for problem, names in (
                ("lacks", named - found),
                ("has, although the index does not name it,", found - named),
            ):
                if names:
                    raise EngineError(f"{self.folder / shard} {problem} {min(names)!a}")
