"""Typed views of files: what a file is, which files are one set, one model in a folder."""
