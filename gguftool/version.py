"""The version, kept in a module of its own so that ``--version`` loads nothing else."""

__version__ = "0.1.0"
