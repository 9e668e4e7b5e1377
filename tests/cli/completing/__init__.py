"""Completion in the shells themselves: each reads the script, is typed to, and shows what it makes of the answer."""
