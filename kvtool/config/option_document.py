"""Options with their values as the document of `kvtool config`; its name and keys say settings, as they always did."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.config.option_values import OptionValue
from kvtool.results.documents.setting_list import SettingRow, SettingsDocument


def options_document(values: Iterable[OptionValue], config: str | None) -> SettingsDocument:
    """Values as they were written; `config` is the configuration file that was read."""
    return SettingsDocument(schema="kvtool.settings/1", config=config, settings=[_row(one) for one in values])


def _row(option: OptionValue) -> SettingRow:
    origin, place = option.origin, option.origin.place
    return SettingRow(
        name=option.name,
        value=option.value,
        **{"from": origin.kind},
        said_by=origin.name,
        path=None if place is None else place.path,
        line=None if place is None else place.line,
    )
