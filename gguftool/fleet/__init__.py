"""Many models at once: which there are, and a row of facts for each."""
