#!/usr/bin/env python3
"""Turns the JSON lines of peers.py into the GPU section of RESULTS.md and prints a short table of what is missing.

    report.py results.jsonl [--machine machine.txt] [--results FILE] [--all]

FILE is a copy of bench/RESULTS.md in which the part between the markers is replaced (made if there is none). The last
line of output counts what was met. --all prints every case.
"""

import argparse
import json
import math
import pathlib
import sys

import plan

BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"


def rate(figure):
    unit, value = next((k, v) for k, v in figure.items() if k != "ms")
    return f"{value / 1000:.2f} TB/s" if unit == "GB/s" else f"{value:.0f} TFLOP/s"


CUTILE = 0.99  # of the fastest kernel of cuTile Python


def peer_ratios(r):
    """Without cuTile Python, which has a requirement of its own."""
    return {k: v for k, v in r.get("ratios", {}).items() if not k.startswith("cuTile")}


def beside_cutile(r):
    """True or False where cuTile Python was measured."""
    ratios = [v for k, v in r.get("ratios", {}).items() if k.startswith("cuTile")]
    return min(ratios) >= CUTILE if ratios else None


def judge(r):
    """(met or None if nothing is asked or known, what was asked)"""
    if "failed" in r or not r.get("correct", False):
        return False, "runs and is right"
    if not r["requires"]:
        return None, ""
    kind, least = r["requires"]
    if kind == "TB/s":
        return r["figures"]["tessera"].get("GB/s", 0) / 1000 >= least, f"{least} TB/s"
    asked = f"{least} of {'read' if 'read' in r['ratios'] else 'the best'}"
    if "read" in r["ratios"]:
        met = r["ratios"]["read"] >= least and r["ratios"].get("torch", 9) > 1
        return met, asked
    ratios = peer_ratios(r)
    if not ratios:
        return None, asked
    return min(ratios.values()) >= least, asked


def row(r):
    arguments = " ".join(f"{k}={v}" for k, v in r["arguments"].items())
    if "failed" in r:
        return f"| {r['name']} | {arguments} | failed: {r['failed'][:80]} | | | | no |"
    peers = ", ".join(f"{k} {rate(v)}" for k, v in r["figures"].items() if k != "tessera")
    ratios = ", ".join(f"{v:.2f}" for v in r["ratios"].values())
    met, asked = judge(r)
    if beside_cutile(r) is False:
        asked += f", {CUTILE} of cuTile"
        met = False
    word = "wrong result" if not r["correct"] else {True: "yes", False: "no", None: ""}[met]
    return f"| {r['name']} | {arguments} | {rate(r['figures']['tessera'])} | {peers} | {ratios} | {asked} | {word} |"


def geometric_mean(results):
    ratios = [min(peer_ratios(r).values()) for r in results if peer_ratios(r) and r.get("correct")]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0


def section(results, machine):
    device = next((r["device"] for r in results if r.get("device")), "unknown device")
    torch = next((r["torch"] for r in results if r.get("torch")), "")
    lines = [
        BEGIN,
        "",
        f"## GPU: {device}",
        "",
        "Written by `scripts/gpu-check.sh --full` (bench/gpu). Random data beyond L2, device events, medians of three "
        f"rounds that alternate with the peer in the same run{f', PyTorch {torch}' if torch else ''}. "
        "A ratio is the peer's time over ours: above 1 is faster.",
        "",
    ]
    if machine:
        lines += ["```", *machine.strip().splitlines(), "```", ""]
    for group in plan.GROUPS:
        some = [r for r in results if r["group"] == group.name]
        if not some:
            continue
        lines += [
            f"### {group.title}",
            "",
            "| work | shape | Tessera | peers | ratio | asked | met |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [row(r) for r in some]
        mean = geometric_mean(some)
        if mean:
            lines += ["", f"Geometric mean {mean:.3f}" + (f", asked {group.mean}." if group.mean else ".")]
        lines.append("")
    return "\n".join(lines + [END, ""])


def replace_section(path, text):
    old = path.read_text(encoding="utf-8") if path.exists() else "# Results\n\n"
    if BEGIN in old and END in old:
        head, rest = old.split(BEGIN, 1)
        text = head + text + rest.split(END, 1)[1].lstrip("\n")
    else:
        text = old.rstrip("\n") + "\n\n" + text
    path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=pathlib.Path)
    parser.add_argument("--machine", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    if not options.lines.exists():
        print("no results")
        return 1
    results = [json.loads(line) for line in options.lines.read_text(encoding="utf-8").splitlines() if line.strip()]
    machine = options.machine.read_text(encoding="utf-8") if options.machine and options.machine.exists() else ""
    if options.results:
        if not options.results.exists() and (base := pathlib.Path(__file__).parents[1] / "RESULTS.md").exists():
            options.results.write_text(base.read_text(encoding="utf-8"), encoding="utf-8")
        replace_section(options.results, section(results, machine))
    met = missed = 0
    for group in plan.GROUPS:
        some = [r for r in results if r["group"] == group.name]
        for r in some:
            ok, asked = judge(r)
            cutile = beside_cutile(r)
            met += (ok is True) + (cutile is True)
            missed += (ok is False) + (cutile is False)
            if options.all or ok is False or cutile is False:
                print(row(r).strip("| "))
        if some and geometric_mean(some):
            print(f"  {group.name}: geometric mean {geometric_mean(some):.3f} of {len(some)}")
            if group.mean:
                met += geometric_mean(some) >= group.mean
                missed += geometric_mean(some) < group.mean
    print(f"{len(results)} cases: {met} figures met, {missed} missed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
