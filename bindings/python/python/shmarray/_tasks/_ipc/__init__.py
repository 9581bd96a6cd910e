"""Messages between processes, and what travels with them: fds, lock tokens, queue slots.

This package does not know workers, pools or contexts. `_workers` and `multiprocessing` use it.
"""
