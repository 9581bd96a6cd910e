"""Objects as a stream of pickle and the memory of its arrays: the message before it is sent.

It knows nothing of pipes and processes: `_dumps` and `_ipc` say where the parts of a message go.
"""
