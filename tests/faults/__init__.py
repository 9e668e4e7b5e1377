"""Every command under every fault: `commands` and `faults` are the tables, `harness` runs one cell, ``-m`` all."""
