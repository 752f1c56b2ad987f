"""KV131: chat template injects the date.

Found by `kvtool.fixes.chat.chat_templates.check_chat_template`, which renders at two times, and by
`kvtool.diagnose.causes.cause_book.CauseBook` as a time that stands in the template's own text.
"""

from __future__ import annotations

from kvtool.diagnose.codes.entry import CodeEntry, CodeRemedy, DifferenceKind

KV131 = CodeEntry(
    "KV131",
    name="chat template injects the date",
    what="The chat template writes the current date, whatever the messages contain.",
    why="The date comes before the first message, so every prefix is lost at midnight. A time loses it at once.",
    before='{{ "Today Date: " + strftime_now("%d %b %Y") }}',
    after='tokenizer.apply_chat_template(messages, date_string="26 Jul 2024")',
    remedies=(CodeRemedy("set a fixed date with the template's own variable, such as date_string", "P3"),),
    ignore="The cache never lives longer than a day.",
    wins=("blocked",),
)
TEMPLATE_TIME = DifferenceKind("template_time", "date from the chat template", KV131.code)
