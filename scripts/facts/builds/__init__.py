"""The timeline of llama.cpp: which build knew what, read from the releases that package registries keep."""
