#!/usr/bin/env python3
"""Turns the lines of in_flight_bench into the section "Work in flight" of RESULTS.md.

    table.py FIGURES [--results FILE] [--commit ID] [--machine TEXT] [--peers]
    table.py --selftest

FIGURES has a line of JSON for each figure. FILE is a copy of bench/RESULTS.md (made if there is none) in which the
section is replaced. --peers measures the queue of products in PyTorch first, where PyTorch and a GPU are, and adds it.
The last line of output counts what was met.
"""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
BEGIN, END = "<!-- begin: in flight -->", "<!-- end: in flight -->"
COLUMNS = ["work", "Tessera", "peer", "ratio", "asked", "met"]
ASKED = {
    "": "",
    "above": "at most {limit:g} {unit} more",
    "times": "at most {limit:g} times",
    "most": "at most {limit:g} {unit}",
    "least": "at least {limit:g} {unit}",
    "faster": "at least {limit:g} times",
}


def number(value):
    return f"{value:.4g}" if abs(value) < 1e5 else f"{value:.0f}"


def row(figure):
    unit = figure["unit"]
    asked = ASKED[figure["asked"]].format(limit=figure["limit"], unit=unit).strip()
    ours = f"{number(figure['value'])} {unit}".strip()
    if "allocations" in figure:
        ours += f", {figure['allocations']:g} allocations"
        asked = (asked + ", " if asked else "") + "no allocation"
    peers = [(figure["peer"], figure["peer_value"])] if figure["peer"] and figure["peer_value"] else []
    peers += list(figure.get("others", {}).items())
    return [
        figure["name"],
        ours,
        ", ".join(f"{name} {number(value)}" for name, value in peers),
        ", ".join(f"{figure['value'] / value:.3f}" for _, value in peers),
        asked,
        {True: "yes", False: "no", None: ""}[figure.get("met")],
    ]


def section(figures, machine, commit):
    lines = [
        BEGIN,
        "## Work in flight",
        "",
        f"`scripts/gpu-check.sh --only build,flight` at {commit or 'an unknown commit'} (bench/in_flight): {machine}. The "
        "peer is the driver's own API, which launches the same kernels in turns with Tessera in the same run, unless "
        "something else is named. Medians of the rounds. A ratio is Tessera's figure over the peer's.",
        "",
    ]
    lines += ["| " + " | ".join(cells) + " |" for cells in [COLUMNS, ["---"] * len(COLUMNS), *map(row, figures)]]
    return "\n".join([*lines, END])


def add_peers(figures, peers):
    """`peers`: {name of a figure: {peer: value}}."""
    for figure in figures:
        if figure["name"] in peers:
            figure.setdefault("others", {}).update(peers[figure["name"]])


def measured_peers():
    try:
        done = subprocess.run([sys.executable, HERE / "torch_queue.py"], capture_output=True, text=True, timeout=120)
        return json.loads(done.stdout) if done.returncode == 0 else {}
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return {}


def count(figures):
    asked = [f["met"] for f in figures if "met" in f]
    return f"{len(figures)} figures, {sum(asked)} of {len(asked)} requirements met"


def selftest():
    figure = {"name": "a", "unit": "ns", "value": 1200, "peer": "p", "peer_value": 1000, "asked": "above", "limit": 300,
              "allocations": 0, "met": True}
    assert row(figure) == ["a", "1200 ns, 0 allocations", "p 1000", "1.200", "at most 300 ns more, no allocation", "yes"]
    plain = {"name": "b", "unit": "units/s", "value": 3e5, "peer": "", "peer_value": 0, "asked": "", "limit": 0}
    add_peers([plain], {"b": {"PyTorch": 2e5}})
    assert row(plain) == ["b", "300000 units/s", "PyTorch 200000", "1.500", "", ""]
    assert count([figure, plain]) == "2 figures, 1 of 1 requirements met"
    text = section([figure], "a machine", "1a2b3c4")
    assert text.startswith(BEGIN) and text.endswith(END) and "1a2b3c4" in text
    print("rows and counts are right")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="?", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--commit", default="")
    parser.add_argument("--machine", default="a machine that was not named")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--selftest", action="store_true")
    options = parser.parse_args()
    if options.selftest:
        return selftest()
    if options.figures is None:
        parser.error("which figures?")
    figures = [json.loads(line) for line in options.figures.read_text().splitlines() if line.startswith("{")]
    if options.peers:
        add_peers(figures, measured_peers())
    text = section(figures, options.machine, options.commit)
    print(text)
    if options.results:
        if not options.results.exists():
            options.results.write_text((HERE.parent / "RESULTS.md").read_text())
        subprocess.run([sys.executable, HERE.parent / "put_section.py", options.results], input=text, text=True, check=True)
    print(count(figures))
    return 0 if figures else 1


if __name__ == "__main__":
    sys.exit(main())
