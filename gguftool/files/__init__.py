"""The one writer of new files: drafts without a name, attributes, sync, room, and names that never replace another's.

`gguftool.files.draft` is the door; only `gguftool.edit.oslayer` writes into files that exist.
"""
