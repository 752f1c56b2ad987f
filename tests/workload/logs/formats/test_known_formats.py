"""The order of the formats of logs, and the fields for which a format is loaded."""

from __future__ import annotations

import json

import pytest

from docs.generators.log_examples import examples
from kvtool.errors import KvtoolError
from kvtool.workload.logs.formats.known_formats import FORMAT_NAMES, format_named, format_of, record_formats

VALUES = [json.loads(line) for _, text in examples().values() for line in text.splitlines() if line.startswith("{")]


def test_a_format_is_named_and_loaded_for_the_records_that_it_fits() -> None:
    """Of all examples: the first format that fits is found, so that no field is missing in the table."""
    for format_ in list(record_formats()):
        assert format_named(format_.name) is format_
        assert format_.name in FORMAT_NAMES
        for value in VALUES:
            if format_.fits(value):
                found = format_of(value)
                assert found is not None
                assert found is next(each for each in record_formats() if each.fits(value))


def test_a_record_without_known_fields_has_no_format() -> None:
    assert format_of({"menu": "soup"}) is None
    assert format_of({}) is None


def test_a_format_that_is_misspelled_is_named() -> None:
    with pytest.raises(KvtoolError) as caught:
        format_named("claude_code")
    assert caught.value.hint == "did you mean `claude-code`?"
