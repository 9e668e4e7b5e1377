"""llama.cpp's own template engine and what stands around it (`common/jinja`, `common/chat.cpp`, b11434), as facts.

It is not jinja2: undefined values are empty, lists can be appended to, texts are bytes, a name set in a loop stays for
the next round, a macro sees the names of its caller. `jinja2` parses the template; what it means is decided here, under
the limits of `gguftool.chat.meter`.

This room imports jinja2; import it only when there is a template.
"""
