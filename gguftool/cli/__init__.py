"""The command line: one command per file, each of them options, one library call and one report."""
