"""The document that each command writes as JSON, by the name of its schema."""

from __future__ import annotations

import json
from importlib import import_module

from pydantic import BaseModel, RootModel

from kvtool.results.document_base import dump
from kvtool.results.documents.bench import BenchDocument
from kvtool.results.documents.doctor import DoctorDocument
from kvtool.results.documents.schema_list import SchemaList
from kvtool.results.schemas import SCHEMAS

DOCUMENTS: dict[str, type[BaseModel]] = {
    f"kvtool.{each.name}/1": getattr(import_module(each.module), each.model)
    for each in SCHEMAS.values()
    if each.mode == "written"
} | {"kvtool.bench/1": BenchDocument, "kvtool.doctor/1": DoctorDocument}


def redumped(text: str) -> str:
    """What a document of kvtool's comes to when it is read as its model and written again: a key or a value less or more shows."""
    read = DOCUMENTS.get(json.loads(text).get("schema", ""), SchemaList).model_validate_json(text)
    return dump(read.root if isinstance(read, RootModel) and isinstance(read.root, BaseModel) else read)
