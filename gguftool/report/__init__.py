"""Results as text, JSON and other formats. Knows the dataclasses of the library and nothing of click."""
