"""Runs the load maps: what llama.cpp computes out of the keys of a file, and where it stops."""
