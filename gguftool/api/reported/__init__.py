"""What the report on one model is made of, a module for each of its sections."""
