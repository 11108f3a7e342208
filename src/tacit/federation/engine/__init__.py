"""The engine that carries messages, and the wall between it and a site's data.

The process that has the data has no network; the process that has the network has no data. One
local socket lies between them (`frames`, `door`, `relay`). Only `client` and `nvflare` know which
engine it is: another one that carries bytes could take its place.
"""
