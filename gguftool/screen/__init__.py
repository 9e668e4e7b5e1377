"""Models edited on the whole terminal; the only room that knows textual (extra ``tui``)."""
