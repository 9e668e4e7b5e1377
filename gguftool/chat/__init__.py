"""Chat templates: read them as a syntax tree, render them under limits, scan them for what does not belong there.

`gguftool.chat.sandbox` and `gguftool.chat.scan` import jinja2 (50 ms); import them only when there is a template.
"""
