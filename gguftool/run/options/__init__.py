"""The options of a launch, each in one place: `gguftool.run.wishes.Wishes` is the table.

A field of `Wishes` is one option. Its spellings, its type, its default, its help and what it touches stand beside it
(`row.option`); from there come the options of ``gguftool launch`` and ``plan``, what is taken in from behind ``--``,
the command lines of llama-server and of gguftool itself, the settings of the embedded server, and every emitted file.
"""
