"""One module for each target; each has a `TARGET`. A new one needs nothing else."""
