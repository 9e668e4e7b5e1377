"""Find, start, watch and read llama.cpp's programs."""
