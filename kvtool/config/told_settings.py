"""Settings as the document of `kvtool config`."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.config.settings import Setting
from kvtool.results.documents.setting_list import SettingRow, SettingsDocument


def settings_document(settings: Iterable[Setting], config: str | None) -> SettingsDocument:
    """Values as they were written; `config` is the configuration file that was read."""
    return SettingsDocument(schema="kvtool.settings/1", config=config, settings=[_row(one) for one in settings])


def _row(setting: Setting) -> SettingRow:
    origin, place = setting.origin, setting.origin.place
    return SettingRow(
        name=setting.name,
        value=setting.value,
        **{"from": origin.kind},
        said_by=origin.name,
        path=None if place is None else place.path,
        line=None if place is None else place.line,
    )
