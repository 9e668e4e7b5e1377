"""What a shell completes: `line` reads what was typed, `table` says what each parameter takes, `shells` answers.

A completion runs at every press of a key: it reads at most the first `sources.MOST_BYTES` of a file that the line
names, never the network, says nothing on stderr, and offers only text that can be shown.
"""
