"""The memory that one private array costs when 1, 2, 4 and 8 receivers have it."""

import peers
from harness import Failed, Sender

ROW = "memory"
WHO = (peers.OURS, "ray", "pickle5", "sharedarray", "pipe")
RECEIVERS = (1, 2, 4, 8)


def measure(bench):
    size = bench.pick(400_000_000, 40_000_000)
    for count in bench.pick(RECEIVERS, (2,)):
        for name in WHO:
            if name not in peers.present() or (bench.quick and name == "ray"):
                continue
            bench.bar.set_description(f"{ROW}: {peers.label(name)}, {count} receivers")
            bench.bar.total += 1
            try:
                record(bench, f"{count} receivers", name, ask(name, count, size), size)
            except Failed as error:
                bench.results.fail(ROW, f"{count} receivers", name, error)
            bench.bar.update()


def ask(name, receivers, size):
    sender = Sender(name, receivers)
    try:
        return sender.ask(do="memory", size_bytes=size)
    finally:
        sender.close()


def record(bench, case, name, found, size):
    """Records multiples of the array.

    The sum of all processes counts each page once (Pss), and includes the sender's own array.
    """
    processes = [found["sender"], *found["receivers"]]
    baseline = found["baseline"]
    values = {
        "all together": sum(process["pss"] for process in processes) - baseline,
        "a receiver's peak resident": max(process["rss_peak"] for process in found["receivers"]),
        "the sender's peak resident": found["sender"]["rss_peak"],
        "shared": found["shared_files"],
        "shared at most": max(found["shared_files_peak"], found["shared_files"]),
    }
    for what, value in values.items():
        bench.results.add(ROW, f"{case}: {what}", name, [value / size], "arrays")
