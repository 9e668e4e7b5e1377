"""How much memory a model takes, and with which settings it fits.

Sizes of KV caches and states are exact; weights are exact by tensor and device; compute buffers are estimated unless
they were measured. Nothing here opens a file or starts a program.
"""
