"""Mechanisms: a value that depends on private data goes in, one that may be released comes out.

`privatize` is the only crossing. Every mechanism knows its event before it sees data.
"""
