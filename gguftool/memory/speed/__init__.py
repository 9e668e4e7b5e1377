"""How fast it can be: what each device reads and computes for a token, its bandwidth, and the bounds that follow."""
