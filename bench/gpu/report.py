#!/usr/bin/env python3
"""Turns the JSON lines of peers.py into the GPU section of RESULTS.md and prints a short table of what is missing.

    report.py results.jsonl [--machine machine.txt] [--results FILE] [--commit ID] [--all]
    report.py --selftest

FILE is a copy of bench/RESULTS.md (made if there is none) in which the part between the markers is replaced; rows there
that this run has not measured again stay, if they are of the same device. The last line of output counts what was met.
--all prints every case.
"""

import argparse
import json
import math
import pathlib
import re
import sys
import textwrap

import plan

BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"


def rate(figure):
    unit, value = next((k, v) for k, v in figure.items() if k != "ms")
    return f"{value / 1000:.2f} TB/s" if unit == "GB/s" else f"{value:.0f} TFLOP/s"


CUTILE = 0.99  # of the fastest kernel of cuTile Python


def is_rival(peer):
    """Whether the ratio to this peer is judged by the plan's requirement. cuTile Python has a requirement of its own;
    Tessera in a chain, or without something, is there to be read (docs/gpu.md)."""
    return not peer.startswith("cuTile") and peer not in (plan.IN_A_CHAIN, *plan.WITHOUT)


def peer_ratios(r):
    return {k: v for k, v in r.get("ratios", {}).items() if is_rival(k)}


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


COLUMNS = ["work", "shape", "Tessera", "peers", "ratio", "required", "met", "commit"]
WORK, SHAPE, PEERS, RATIO = 0, 1, 3, 4


UNSTEADY = 1.05


def unsteady(r, who):
    """"~" where the rounds of one of those measured differ by more than a twentieth."""
    times = r.get("rounds", {}).get(who) or [1.0]
    return "~" if max(times) > UNSTEADY * min(times) else ""


def row(r, commit):
    """The cells of a table's row."""
    arguments = " ".join(f"{k}={v}" for k, v in r["arguments"].items())
    if "failed" in r:
        reason = r["failed"][:80].replace("|", "/").replace("\n", " ")
        return [r["name"], arguments, f"failed: {reason}", "", "", "", "no", commit]
    peers = ", ".join(f"{k} {unsteady(r, k)}{rate(v)}" for k, v in r["figures"].items() if k != "tessera")
    ratios = ", ".join(f"{v:.3f}" for v in r["ratios"].values())
    met, asked = judge(r)
    if beside_cutile(r) is False:
        asked += f", {CUTILE} of cuTile"
        met = False
    word = "wrong result" if not r["correct"] else {True: "yes", False: "no", None: ""}[met]
    ours = unsteady(r, "tessera") + rate(r["figures"]["tessera"])
    return [r["name"], arguments, ours, peers, ratios, asked, word, commit]


def text_of(cells):
    return "| " + " | ".join(cells) + " |"


def geometric_mean(results):
    ratios = [min(peer_ratios(r).values()) for r in results if peer_ratios(r) and r.get("correct")]
    return mean_of(ratios)


def mean_of(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0


def least_ratio(cells):
    """As in geometric_mean, from a row's text; None if the row has none."""
    names = [peer.rsplit(" ", 2)[0] for peer in cells[PEERS].split(", ")] if cells[PEERS] else []
    ratios = [float(x) for x in cells[RATIO].split(", ")] if cells[RATIO] else []
    kept = [x for name, x in zip(names, ratios) if is_rival(name) and x > 0]
    return min(kept) if kept and "wrong result" not in cells else None


# -- what an earlier run has left ------------------------------------------------------------------------------------


def old_rows(text, device):
    """{title: {(work, shape): cells}} of the section that `text` has, if it is of the same device."""
    if BEGIN not in text or END not in text:
        return {}
    section = text.split(BEGIN, 1)[1].split(END, 1)[0]
    if f"## GPU: {device}\n" not in section:
        return {}
    earlier = re.search(r"^commit (\S+)$", section, re.M)
    groups, rows = {}, {}
    for line in section.splitlines():
        if line.startswith("### "):
            rows = groups.setdefault(line[4:], {})
        elif line.startswith("| ") and not line.startswith("| work |"):
            cells = [cell.strip() for cell in line.strip()[1:-1].split("|")]
            if len(cells) == len(COLUMNS) - 1:  # before rows had a commit
                cells.append(earlier.group(1) if earlier else "")
            if len(cells) == len(COLUMNS):
                rows[cells[WORK], cells[SHAPE]] = cells
    return groups


def merged(group, results, old, commit):
    """The rows of a group, in the plan's order: of this run, or what an earlier one has left."""
    if group.name == plan.RANDOM and not results:
        return list(old.values())  # other shapes replace all of them
    rows = {(c[WORK], c[SHAPE]): c for c in (row(r, commit) for r in results)}
    order = []
    for case in plan.all_cases():
        key = (case.name, " ".join(f"{k}={v}" for k, v in case.arguments.items()))
        if case.group == group.name and (key in rows or key in old):
            order.append(rows.pop(key, None) or old[key])
    return order + list(rows.values())


def section(results, machine, old_text="", commit=""):
    device = next((r["device"] for r in results if r.get("device")), "unknown device")
    torch = next((r["torch"] for r in results if r.get("torch")), "")
    old = old_rows(old_text, device)
    lines = [
        BEGIN,
        "",
        f"## GPU: {device}",
        "",
        "Written by `scripts/gpu-check.sh` (bench/gpu). Random data beyond L2, device events, medians of five "
        f"rounds or more, with the peers in turns in the same run{f', PyTorch {torch}' if torch else ''}. "
        "A ratio is the peer's time over ours: above 1 is faster. The machine is that of the last run; the last column "
        "is the commit of the row. The launches of a measurement are independent of each other, and ours use that; "
        f"\"{plan.IN_A_CHAIN}\" is the same work in launches that each read what the one before has written (rows before "
        "that was measured: without early reads). Between batches the device rests for 0.3 ms, for every implementation "
        "(docs/gpu.md, Benchmarks). ~: the rounds differ by more than 5 %; the median is less certain.",
        "",
    ]
    if machine:
        lines += ["```", *machine.strip().splitlines(), "```", ""]
    for group in plan.GROUPS:
        rows = merged(group, [r for r in results if r["group"] == group.name], old.get(group.title, {}), commit)
        if not rows:
            continue
        lines += [f"### {group.title}", "", text_of(COLUMNS), "|---" * len(COLUMNS) + "|"]
        lines += [text_of(cells) for cells in rows]
        ratios = [x for x in map(least_ratio, rows) if x]
        if ratios:
            lines += ["", f"Geometric mean {mean_of(ratios):.3f}" + (f", required {group.mean}." if group.mean else ".")]
        if ratios and group.name == plan.RANDOM:
            lines[-1] += f" Least {min(ratios):.3f}."
        lines.append("")
    lines[4] = textwrap.fill(lines[4], 99, break_long_words=False, break_on_hyphens=False)  # the prose at the top
    return "\n".join(lines + [END, ""])


def replace_section(path, make):
    """Puts make(old text) into the place of the section."""
    old = path.read_text(encoding="utf-8") if path.exists() else "# Results\n\n"
    text = make(old)
    if BEGIN in old and END in old:
        head, rest = old.split(BEGIN, 1)
        text = head + text + rest.split(END, 1)[1].lstrip("\n")
    else:
        text = old.rstrip("\n") + "\n\n" + text
    path.write_text(text, encoding="utf-8")


def missing_peers(r):
    """Peers of the plan that were not measured, with the reason that is known."""
    case = next((c for c in plan.all_cases() if c.group == r["group"] and c.name == r["name"]), None)
    wanted = case.peers if case else []
    lacking = [p for p in wanted if not any(k.startswith(p) for k in r.get("ratios", {}))]
    reasons = [n for n in r.get("notes", []) if any(n.startswith(p) for p in lacking)]
    return f"without {', '.join(lacking)}: {'; '.join(reasons) or 'not here'}" if lacking else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", type=pathlib.Path, nargs="?")
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("--commit", default="")
    parser.add_argument("--machine", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    if options.selftest:
        return selftest()
    if not options.lines or not options.lines.exists():
        print("no results")
        return 1
    results = [json.loads(line) for line in options.lines.read_text(encoding="utf-8").splitlines() if line.strip()]
    machine = options.machine.read_text(encoding="utf-8") if options.machine and options.machine.exists() else ""
    if options.results:
        if not options.results.exists() and (base := pathlib.Path(__file__).parents[1] / "RESULTS.md").exists():
            options.results.write_text(base.read_text(encoding="utf-8"), encoding="utf-8")
        replace_section(options.results, lambda old: section(results, machine, old, options.commit))
    met = missed = 0
    for group in plan.GROUPS:
        some = [r for r in results if r["group"] == group.name]
        for r in some:
            ok, asked = judge(r)
            cutile = beside_cutile(r)
            met += (ok is True) + (cutile is True)
            missed += (ok is False) + (cutile is False)
            if options.all or ok is False or cutile is False:
                print(" | ".join(row(r, "")).strip("| "))
        lacking = [text for text in map(missing_peers, some) if text]
        if lacking:
            print(f"  {group.name}: {len(lacking)} of {len(some)} {lacking[0]}")
        if some and geometric_mean(some):
            print(f"  {group.name}: geometric mean {geometric_mean(some):.3f} of {len(some)}")
            if group.mean:
                met += geometric_mean(some) >= group.mean
                missed += geometric_mean(some) < group.mean
    print(f"{len(results)} cases: {met} figures met, {missed} missed")
    return 0


def selftest():
    """Merging: a second run of other cases keeps the first one's rows, replaces those measured again, and mixes nothing
    of another device."""

    def result(group, name, arguments, ms, device="GPU A"):
        figures = {"tessera": {"ms": 1.0, "GB/s": 4000.0}, "torch": {"ms": ms, "GB/s": 4000.0 / ms}}
        return {
            "group": group,
            "name": name,
            "arguments": arguments,
            "requires": ["ratio", 0.99],
            "notes": [],
            "correct": True,
            "figures": figures,
            "ratios": {"torch": ms},
            "device": device,
            "torch": "2",
        }

    f32, f16 = {"n": 1 << 28, "dtype": "f32"}, {"n": 1 << 28, "dtype": "f16"}
    first = section([result("memory", "add", f32, 1.0), result("memory", "add", f16, 0.5)], "commit aaa", "", "aaa")
    second = [result("memory", "add", f16, 2.0), result("sums", "transpose", {"n": 16384}, 3.0)]
    second[1]["rounds"] = {"tessera": [1.0, 1.04], "torch": [3.0, 3.0, 3.3]}
    text = section(second, "commit bbb", first, "bbb")
    rows = [line for line in text.splitlines() if re.match(r"\| (add|transpose) ", line)]
    assert len(rows) == 3 and [r.split(" | ")[-1].rstrip(" |") for r in rows] == ["aaa", "bbb", "bbb"], text
    assert "dtype=f16 | 4.00 TB/s | torch 2.00 TB/s | 2.000 | 0.99 of the best | yes | bbb" in text, text
    assert "| 4.00 TB/s | torch ~1.33 TB/s | 3.000 |" in text, text
    assert "Geometric mean 1.414" in text and "Geometric mean 3.000" in text, text
    assert text.count("commit bbb") == 1 and "commit aaa" not in text, text
    assert section(second, "", text, "bbb").count("| aaa |") == 1, "merging again changes nothing"
    other = section([result("memory", "add", f32, 1.0, "GPU B")], "", text, "ccc")
    assert "aaa" not in other and "bbb" not in other, "another device starts anew"
    without = "\n".join(line[: -len(" aaa |")] if line.endswith("| aaa |") else line for line in first.splitlines())
    old = old_rows(without + "\n", "GPU A")
    assert all(cells[-1] == "aaa" for group in old.values() for cells in group.values()) and old, old
    assert not judge(result("memory", "add", f32, 0.5))[0] and judge(result("memory", "add", f32, 0.99))[0]
    print("merging works")
    return 0


if __name__ == "__main__":
    sys.exit(main())
