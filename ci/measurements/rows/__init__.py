"""One module for each family of rows, with a function `measure(bench)`."""

from rows import (
    born,
    channel,
    dask,
    growth,
    jobs,
    limits,
    lists,
    memory,
    npy,
    npy_corpus,
    paths,
    private,
    received,
    reports,
    ruby,
    shared,
    standard,
)

# In the order in which they are measured: the word for --only, and what it is.
FAMILIES = {
    "limits": limits,
    "shared": shared,
    "private": private,
    "received": received,
    "born": born,
    "lists": lists,
    "reports": reports,
    "standard": standard,
    "ruby": ruby,
    "jobs": jobs,
    "paths": paths,
    "channel": channel,
    "npy": npy,
    "npy corpus": npy_corpus,
    "dask": dask,
    "memory": memory,
    "growth": growth,
}
