"""Encodes an object as a pickle stream and the memory of its arrays, and decodes it again.

This package does not know pipes or processes. `_dumps` and `_tasks` decide how the encoded parts
travel.
"""
