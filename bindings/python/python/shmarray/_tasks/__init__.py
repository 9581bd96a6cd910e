"""The machinery of the packages that run tasks: messages between processes, and workers.

`multiprocessing`, `concurrent` and `joblib` are built on it. TASKS.md describes it.
"""
