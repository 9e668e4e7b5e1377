"""A mixture of our own: which tensor gets which type, so that a file of a given size loses least."""
