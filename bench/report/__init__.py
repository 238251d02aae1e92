"""Reads result files of the benchmarks; makes reports of them and compares two of them."""
