"""Messages between processes, and what travels with them: fds, lock tokens, queue slots.

It knows nothing of workers, pools and contexts: `_workers` and `multiprocessing` stand on it.
"""
