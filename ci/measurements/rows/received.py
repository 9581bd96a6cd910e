"""What a receiver has alone: its first write, and forks with it. One copy for many receivers."""

from harness import HERE, Answering

ROW = "received"
PROGRAM = HERE / "programs/received.py"
OWN = "own memory"
EIGHT = "ours, 8 different arrays"
THEIRS = "standard library"

# By the case: contenders, and what their process answers to.
CASES = {
    "first write to 50 MB, CPU": {
        "ours, from a pool": "write to a result",
        "ours, from dumps": "write to what was loaded",
        OWN: "write to own memory",
    },
    "fork with 128 arrays of 2 MiB": {"ours": "fork with 128", OWN: "fork with own 128"},
    "fork with 8 arrays of 32 MiB": {"ours": "fork with 8", OWN: "fork with own 8"},
    "160 MB to 8 workers, read": {
        "ours": "read one",
        EIGHT: "read eight",
        THEIRS: "read by standard",
    },
    "160 MB to 8 workers, written to": {
        "ours": "write one",
        EIGHT: "write eight",
        THEIRS: "write by standard",
    },
}
QUICK = ["first write to 50 MB, CPU", "160 MB to 8 workers, read"]
COPIES = "160 MB to 8 workers: copies in shared memory"


def measure(bench):
    for case in QUICK if bench.quick else CASES:
        programs = {who: Answering(ROW, PROGRAM, order) for who, order in CASES[case].items()}
        try:
            bench.measure(
                ROW,
                case,
                {who: contender(program) for who, program in programs.items()},
                bench.pick(9, 2),
            )
            if case == "160 MB to 8 workers, read":
                for who in ("ours", EIGHT):
                    bench.results.add(ROW, COPIES, who, [programs[who].ask()["copies"]], "arrays")
        finally:
            for program in programs.values():
                program.close()


def contender(program):
    return lambda: program.ask()["seconds"]
