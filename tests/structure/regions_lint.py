"""Finds two mistakes that C++ allows in recorded regions (the arms of tile_if, the bodies of tile_while, range and loops over
MutTiles), which are recorded once and run on the device:

    continue     `continue` whose innermost loop is the one that tile_if expands to: it only ends the arm, what follows in the
                 user's own loop is recorded all the same. (Recording notices an arm that did nothing; this finds the rest.)
    assignment   an assignment, ++ or -- of a host variable from outside the region: it happens once, while recording, whichever
                 arm the device takes and however often the loop runs. What assigns through functions and references is not seen.

A line that means it, in a test of what recording says, carries the comment NOLINT(continue) or NOLINT(assignment).

    regions_lint.py --fixtures                   check the checks on the lines marked in tests/structure/fixtures
    regions_lint.py --database BUILD [--tree]    check the files of a compile database that have such regions (clang_query.py)
"""
import re

import clang_query

# The searches are those of `tessera lint`.
DEFINITIONS, QUERIES = clang_query.from_file("tools/lint_regions.inc")
LINT = clang_query.Lint(
    DEFINITIONS, QUERIES, opens=re.compile(r"\btile_if\b|\btile_while\b|:\s*range\(|\bMutTiles\b"), place="region",
    covers=("examples", "tests/kernels", "tests/lang", "tests/guide"), advice="See docs/guide on control flow.")

if __name__ == "__main__":
    clang_query.main(LINT, __doc__)
