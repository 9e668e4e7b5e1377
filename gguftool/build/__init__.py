"""Make models: drive the real converter and quantiser, or quantise with the built-in engine."""
