"""Programs as people reported them, with the standard module and with ours."""

import importlib.util
import subprocess
import sys

from harness import HERE, ROOT, Failed, program
from peers import version

ROW = "reports"
FOLDER = ROOT / "examples/python"
# The programs of examples/python at full size, with a title each.
EXAMPLES = {
    "worker_to_parent": "100 fields of 700 × 1400 float32",
    "pool_results": "8 results of 50 MB from a pool",
    "big_data": "BigData to a pool, 16 chunks",
    "data_loader": "a data loader's batches",
}
WAYS = {"changed": "ours", "original": "pipe", "shared_memory": "pickle5"}
# Objects that hold the same 392 MB, with the library of each.
OBJECTS = {
    "Dataset of 100 fields": ("dataset", "xarray"),
    "DataFrame of 100 columns": ("frame", "pandas"),
}


def measure(bench):
    for folder, case in EXAMPLES.items():
        contenders = {
            who: example(FOLDER / folder / f"{way}.py", bench.quick)
            for way, who in WAYS.items()
            if (FOLDER / folder / f"{way}.py").is_file()
        }
        bench.measure(ROW, case, contenders, bench.pick(5, 1))
    for case, (kind, package) in OBJECTS.items():
        if version(package):
            contenders = {who: one_object(who, kind, bench.quick) for who in WAYS.values()}
            bench.measure(ROW, case, contenders, bench.pick(5, 1))


compare_specification = importlib.util.spec_from_file_location("compare", FOLDER / "compare.py")
compare = importlib.util.module_from_spec(compare_specification)
compare_specification.loader.exec_module(compare)


def example(path, small):
    """The programs' own seconds. examples/python/compare.py checks that all print one result."""

    def run():
        try:
            result, seconds = compare.run(path, small)
        except subprocess.CalledProcessError as error:
            raise Failed(f"it ended with {error.returncode}") from None
        previous = results.setdefault(path.parent, result)
        if result != previous:
            raise Failed(f"its result is {result}, another's is {previous}")
        return seconds

    return run


results = {}


def one_object(who, kind, small):
    return lambda: program(
        sys.executable, HERE / "programs/objects.py", who, kind, 70 if small else 700
    )[0]
