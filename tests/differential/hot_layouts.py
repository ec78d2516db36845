"""Some queries of each random suite over tables whose rows are hot, and over tables where some of them are."""

import argparse
import importlib

# Suites, and how many queries they have by themselves.
SUITES = {
    "randomized": "queries",
    "joins": "joins",
    "correlated": "size",
    "numeric": "size",
    "windowed": "computed",
    "moments": "computed",
    "texts": "computed",
    "devices": "devices",
}
# One in so many of them.
SHARE = 10


def run(options, report):
    """`options`: those of all these suites. Every other suite has rows that are hot, the others mixed ones; with another seed it is the other way
    round, and the long size has both."""
    for place, (module, count) in enumerate(SUITES.items()):
        for layout in ("hot", "mixed") if options.long else [("hot", "mixed")[(options.seed + place) % 2]]:
            own = argparse.Namespace(**vars(options))
            own.layout, own.directory = layout, f"{options.directory}/{layout}"
            setattr(own, count, max(10, getattr(options, count) // SHARE))
            report.say(f"   {layout} rows:")
            importlib.import_module(module).run(own, report)
