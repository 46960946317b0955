#!/usr/bin/env python3
"""The tables of what peers.py has measured.

    table.py results.jsonl [--hints hints.jsonl]
    table.py --selftest

One row a case: milliseconds of ours, of PyTorch and of torch.compile, and the ratio of the better one to ours (above 1:
ours is faster). Then the geometric mean, and all cases below SLOW. With --hints also the gain of the best setting of TESSERA_TUNING, and all cases where it is more than GAIN.
"""

import argparse
import json
import math
import pathlib
import sys

SLOW = 0.9
GAIN = 1.08  # by default within 8 % of by hints


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def mean_of(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0


def ms_of(result, who):
    figure = result["figures"].get(who)
    return f"{figure['ms']:.4f}" if figure else ""


def label_of(result):
    """The name, with the number of the shape where it is not the first."""
    return result["name"] + (f"/{result['shape']}" if result.get("shape") else "")


def cells_of(result):
    name = f"{result['name']} " + " ".join(f"{k}={v}" for k, v in result["arguments"].items())
    if "failed" in result:
        return [name, "failed: " + result["failed"][:80].replace("|", "/"), "", "", ""]
    ratio = f"{min(result['ratios'].values()):.3f}" if result["ratios"] else ""
    if not result["correct"]:
        ratio += " wrong result"
    elif not result.get("peers_agree", True):
        ratio += " peers disagree"
    return [name, ms_of(result, "tessera"), ms_of(result, "torch"), ms_of(result, "torch.compile"), ratio]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return lines + ["| " + " | ".join(cells) + " |" for cells in rows]


def report(results):
    lines = table(["case", "ours ms", "eager ms", "compiled ms", "better peer / ours"], map(cells_of, results))
    right = [r for r in results if "failed" not in r and r["correct"] and r["ratios"]]
    ratios = {label_of(r): min(r["ratios"].values()) for r in right}
    lines += ["", f"Geometric mean {mean_of(list(ratios.values())):.3f} of {len(ratios)}."]
    slow = sorted((ratio, name) for name, ratio in ratios.items() if ratio < SLOW)
    lines += [f"Below {SLOW}: {len(slow)}"] + [f"  {name} {ratio:.3f}" for ratio, name in slow]
    bad = [label_of(r) for r in results if "failed" in r or not r["correct"]]
    return lines + [f"Failed or wrong: {', '.join(bad) or 'none'}"]


def hints_report(results):
    known = [r for r in results if "failed" not in r]
    rows = [[r["name"], f"{r['default_ms']:.4f}", r["best"], f"{r['best_ms']:.4f}", f"{gain_of(r):.3f}"] for r in known]
    lines = table(["case", "by default ms", "best hint", "its ms", "gain"], rows)
    far = sorted(((gain_of(r), r["name"], r["best"]) for r in known if gain_of(r) > GAIN), reverse=True)
    lines += ["", f"Gains above {GAIN}: {len(far)} of {len(known)}"]
    lines += [f"  {name} {gain:.3f} by {best}" for gain, name, best in far]
    failed = [r["name"] for r in results if "failed" in r]
    return lines + ([f"Not measured: {', '.join(failed)}"] if failed else [])


def gain_of(result):
    return result["default_ms"] / result["best_ms"]


def selftest():
    def case(name, ours, eager, compiled, correct=True):
        figures = {"tessera": {"ms": ours}, "torch": {"ms": eager}, "torch.compile": {"ms": compiled}}
        ratios = {"torch": eager / ours, "torch.compile": compiled / ours}
        return {"name": name, "arguments": {"n": 4}, "figures": figures, "ratios": ratios, "correct": correct}

    results = [case("fast", 1.0, 2.0, 4.0), case("slow", 1.0, 3.0, 0.5), case("wrong", 1.0, 1.0, 1.0, False)]
    results.append({"name": "broken", "arguments": {}, "failed": "no | such thing"})
    results.append(case("fast", 1.0, 8.0, 8.0, False) | {"shape": 2})
    text = "\n".join(report(results))
    assert "| fast n=4 | 1.0000 | 2.0000 | 4.0000 | 2.000 |" in text, text
    assert "Geometric mean 1.000 of 2." in text and "Below 0.9: 1\n  slow 0.500" in text, text
    assert "failed: no / such thing" in text and "Failed or wrong: wrong, broken, fast/2" in text, text
    hints = [{"name": "a", "default_ms": 1.1, "best": "warps=2", "best_ms": 1.0, "hints": {}}, {"name": "b", "failed": ""}]
    text = "\n".join(hints_report(hints))
    assert "Gains above 1.08: 1 of 1\n  a 1.100 by warps=2\nNot measured: b" in text, text
    print("the tables are right")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, nargs="?")
    parser.add_argument("--hints", type=pathlib.Path)
    parser.add_argument("--selftest", action="store_true")
    options = parser.parse_args()
    if options.selftest:
        return selftest()
    if options.results:
        print("\n".join(report(read(options.results))))
    if options.hints:
        print("\n".join(([""] if options.results else []) + hints_report(read(options.hints))))
    return 0 if options.results or options.hints else parser.error("a file of results is needed")


if __name__ == "__main__":
    sys.exit(main())
