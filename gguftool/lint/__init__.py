"""Rules over one model: findings, with fixes as data, and what llama.cpp would do when it loads the file."""
