"""How the screen looks, and its page of help."""

from __future__ import annotations

CSS = """
Screen { layout: vertical; }
#top, #load { height: 1; padding: 0 1; }
#top { background: $panel; }
#body { height: 1fr; }
#left { width: 5fr; }
#right { width: 6fr; padding: 0 1; border-left: solid $panel; }
.-narrow #body { layout: vertical; }
.-narrow #left { width: 1fr; height: 3fr; }
.-narrow #right { width: 1fr; height: 2fr; border-left: none; border-top: solid $panel; }
#search { border: none; height: 1; padding: 0 1; background: $boost; }
#tree { height: 1fr; overflow-x: hidden; scrollbar-size: 1 1; }
#right, .box VerticalScroll, OptionList { scrollbar-size: 1 1; }
OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
Choice OptionList { text-wrap: wrap; }
#findings { height: auto; max-height: 6; padding: 0 1; }
#findings { border: none; border-top: solid $primary; border-title-color: $text; }
Form, Choice, Words, Elements, Writing, Busy { align: center middle; }
.box { width: 90%; max-width: 110; height: auto; max-height: 90%; border: round $primary; padding: 0 1; }
.tall { height: 90%; }
.tall VerticalScroll, .tall OptionList { height: 1fr; }
.box OptionList { border: none; }
.box Line { border: none; height: 1; padding: 0 1; background: $boost; }
.box Lines { border: none; height: 40vh; background: $boost; }
.box Label { margin-top: 1; }
.box .error { height: auto; max-height: 8; margin-top: 1; }
.question { height: auto; max-height: 14; }
*:nocolor .option-list--option-highlighted { text-style: reverse; }
*:nocolor Input:focus { text-style: underline; }
"""

HELP = """\
enter   change the value; look through an array
a       add a key
d       delete the key
r       rename it; OLD.* to NEW.* all of a kind
x       the fix of what is found at the key
X       all safe fixes
u       undo the last change
ctrl+r  make it again
w       see what would be written, then write it
z       take back what was written last
/       search keys and values; ! shows those
        with findings, * those that change
n       the next finding
tab     to the findings and back
F5      read the file again
q       quit
?       this page
ctrl+c  quit; twice: without a question

Marks before a key, none of it written yet:
*  changed     +  new     -  deleted
!  an error    ?  a warning    i  worth knowing

Nothing is written before you have seen what.
A write is crash-safe as one of `gguftool fix`,
and `gguftool undo` takes it back as well.
"""
