"""What a command does in one call, over a path, an address or a model: the functions that need several rooms.

Those that need one room alone live there (`lint.call`, `verify.call`, `edit.session`); `gguftool.door` names them all.
"""
