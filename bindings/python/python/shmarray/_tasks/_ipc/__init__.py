"""Messages between processes, and what travels with them: fds, the slots and tasks of queues.

This package does not know workers, pools or contexts. `_workers` and `multiprocessing` use it.
"""
