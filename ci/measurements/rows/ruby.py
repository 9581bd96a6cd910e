"""Frames from two Ruby processes to their parent, minus the time of the blocks themselves."""

from harness import HERE, Failed, program

ROW = "ruby"
CASE = "frames of 1920 × 1080 × 3 bytes from two processes, each"
# In frames.rb, and in the tables.
FAULT = "first write of a page of shared memory in that run"
WAYS = {"map": "ours", "in place": "shmarray, in place", "Marshal": "Marshal through a pipe"}


def measure(bench):
    frames, rounds = bench.pick((60, 15), (6, 2))
    bench.bar.set_description("ruby")
    try:
        (found,) = program("ruby", HERE / "programs/frames.rb", frames, rounds)
    except Failed as error:
        for who in WAYS.values():
            bench.results.fail(ROW, CASE, who, error)
        return
    bench.results.add(ROW, FAULT, "the system", found["page fault"])
    for way, who in WAYS.items():
        pairs = zip(found[way], found[f"{way}, nil"], strict=True)
        bench.results.add(ROW, CASE, who, [(whole - work) / frames for whole, work in pairs])
        bench.results.add(
            ROW, f"{CASE}, with the blocks' work", who, [whole / frames for whole in found[way]]
        )
