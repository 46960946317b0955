"""What charts and pages say about results.json: the groups of cases, their peers, and honest means.

A ratio is the peer's time over Tessera's: above 1 Tessera is faster. A mean is always geometric and never alone: with it
come the least ratio of the group and the mean without the fifth of the cases whose ratios are the highest (rounded to
whole cases, at least one where there are more than two), so that a few cases in which the peer is slow cannot make a group look good.
"""

import math
from typing import NamedTuple

from collect import CHAIN


class Group(NamedTuple):
    key: str
    title: str  # how the group's title in bench/RESULTS.md begins; "naive" and "cpu" are the sections of that name
    label: str
    peers: tuple  # the peers' names in the rows; the fastest that was measured counts
    shown: str  # for readers


# PyTorch counts as it is, or compiled where that is faster. What was never compiled says so (shown()).
EITHER = ("torch", "torch.compile")
BETTER = "PyTorch or torch.compile"

GROUPS = [
    Group("elementwise", "copy, add, saxpy", "copy, add, saxpy", EITHER, BETTER),
    Group("rows", "softmax, RMS norm, layer norm", "softmax and norms", EITHER, BETTER),
    Group("rows_cutile", "softmax, RMS norm, layer norm", "softmax and norms", ("cuTile tuned",), "tuned cuTile Python"),
    Group("odd_rows", "odd rows", "rows of odd lengths", EITHER, BETTER),
    Group("sums", "row sums", "row sums, transpose", EITHER, BETTER),
    Group("squares", "matrix products, squares", "matrix products, squares", ("cuBLAS",), "cuBLAS"),
    Group("layers", "matrix products of transformer layers", "products of transformer layers", ("cuBLAS",), "cuBLAS"),
    Group("short_wave", "matrix products whose last wave is short", "products, short last wave", ("cuBLAS",), "cuBLAS"),
    Group("ragged", "ragged matrix products", "products, ragged shapes", ("cuBLAS",), "cuBLAS"),
    Group("fp8", "f8e4m3", "fp8 products", ("cuBLAS",), "cuBLAS"),
    Group("attention", "attention forward", "attention", ("cuDNN",), "cuDNN"),
    Group("few_rows", "few rows times weights", "few rows times weights", ("cuBLAS",), "cuBLAS"),
    Group("decode", "decode attention", "decode attention", EITHER, BETTER),
    Group("safety", "the price of safety", "the same kernels with unsafe accesses", ("twin",), "unsafe twin"),
    Group("naive", "naive", "untuned kernels", EITHER, BETTER),
    Group("cpu", "cpu", "CPU, one and two threads", (), "hand-vectorised loops, OpenBLAS"),
]
BY_KEY = {g.key: g for g in GROUPS}
SHOWN = {"torch": "PyTorch", "cuTile tuned": "tuned cuTile Python"}  # peers of rows for readers, where their names differ


class Case(NamedTuple):
    name: str
    ratio: float
    chain: float | None  # the same with Tessera's launches in a chain; None if it was not measured
    commit: str
    text: str  # what was reached, and what the peer reached
    unsteady: bool


def versus(ours, peer):
    """"621 vs ~611 TFLOP/s"; ~: the rounds of this one differ by more than 5 %."""
    sides = [f"{'~' if r.get('unsteady') else ''}{r['value']:.2f}" if r["unit"] == "TB/s" else f"{'~' if r.get('unsteady') else ''}{r['value']:g}"
             for r in (ours, peer)]
    return f"{sides[0]} vs {sides[1]} {ours['unit']}"


def name_of(row):
    """A case's short name: "4096 x 4096 x 4096 bf16 NT"."""
    a = dict(p.split("=") for p in row["shape"].split())
    if row["work"] == "gemm":
        return " ".join([f"{a['m']} x {a['n']} x {a['k']}", a["dtype"], a["layout"]] + ([f"tile {a['tile']}"] if "tile" in a else []))
    if row["work"] == "linear":
        return f"{a['m']} x {a['n']} x {a['k']}"
    if row["work"] in ("attention", "decode"):
        words = [f"{a['length']} keys", f"d {a['d']}" if "d" in a else f"batch {a['batch']}"]
        return ", ".join(words + ["causal" if a["causal"] == "1" else "full"] if "causal" in a else words)
    if "columns" in a:
        return f"{row['work'].replace('_', ' ')}, rows of {a['columns']}"
    if "m" in a and "n" in a:
        return f"{row['work'].replace('_', ' ')} {a['m']} x {a['n']}"
    return " ".join([row["work"]] + [v for k, v in a.items() if k != "n"])


def gpu_case(row, group):
    peers = [p for name, p in row["peers"].items() if name in group.peers]
    if not peers:
        raise ValueError(f"{group.label}: {name_of(row)} was measured without any of {', '.join(group.peers)}")
    peer, chain = min(peers, key=lambda p: p["ratio"]), row["peers"].get(CHAIN)
    return Case(name_of(row), peer["ratio"], peer["ratio"] / chain["ratio"] if chain else None, row["commit"],
                versus(row["tessera"], peer), row["tessera"]["unsteady"] or peer["unsteady"])


def cases(data, key):
    """The cases of a group, in the order of the table."""
    group = BY_KEY[key]
    if key == "naive":
        return [Case(r["case"], r["ratio"], None, r["commit"], f"{r['tessera_ms']:g} vs {min(r['eager_ms'], r['compiled_ms']):g} ms", False)
                for r in data["naive"]["rows"]]
    if key == "cpu":
        return [Case(f"{r['work']}, {r['threads']} thread{'s' if r['threads'] > 1 else ''}", r["ratio"], None, data["cpu"]["commit"],
                     versus(r["tessera"], {"value": r["peer"], "unit": r["tessera"]["unit"]}), False) for r in data["cpu"]["rows"]]
    return [gpu_case(r, group) for r in gpu_rows(data, group)]


def gpu_rows(data, group):
    found = [g for g in data["gpu"]["groups"] if g["title"].startswith(group.title)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} groups of results begin with '{group.title}': bench/figures/figures.py names them")
    return found[0]["rows"]


def shown(data, key):
    """What a group is compared with, for readers. Rows that were measured before torch.compile was a peer of theirs say that
    they are compared with eager PyTorch alone."""
    group = BY_KEY[key]
    if group.peers != EITHER or key == "naive":
        return group.shown
    compiled = ["torch.compile" in r["peers"] for r in gpu_rows(data, group)]
    return group.shown if all(compiled) else "eager PyTorch" if not any(compiled) else f"{group.shown}, where it was compiled"


def row_of(data, selector):
    """The one row that a selector names: "rows:softmax,columns=1024" or "naive:column_sums"."""
    key, _, words = selector.partition(":")
    name, *pairs = words.split(",")
    if key == "naive":
        found = [r for r in data["naive"]["rows"] if r["case"] == name]
    else:
        found = [r for g in data["gpu"]["groups"] if g["title"].startswith(BY_KEY[key].title) for r in g["rows"]
                 if r["work"] == name and set(pairs) <= set(r["shape"].split())]
    if len(found) != 1:
        raise ValueError(f"{len(found)} rows of results are {selector}")
    return found[0]


def rate_text(rate):
    return f"{'~' if rate.get('unsteady') else ''}{rate['value']:.2f}" if rate["unit"] == "TB/s" else f"{rate['value']:g}"


def quantity(data, selector, who):
    """What `who` reached in a row: a rate, or for untuned kernels milliseconds; "tessera", or a peer's name."""
    row = row_of(data, selector)
    if selector.startswith("naive:"):
        return f"{row[f'{who}_ms']:.2f}"
    return rate_text(row["tessera"] if who == "tessera" else row["peers"][who])


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


class Summary(NamedTuple):
    count: int
    mean: float
    without_best: float  # the mean without the best fifth
    best: list  # the names of that fifth
    least: float
    least_name: str
    most: float
    chain: float | None  # the mean where each launch needs the one before


def summary(data, key):
    some = sorted(cases(data, key), key=lambda c: c.ratio)
    left_out = max(1, round(len(some) / 5)) if len(some) > 2 else 0
    kept = some[: len(some) - left_out]
    in_chain = [c.chain if c.chain else c.ratio for c in some] if any(c.chain for c in some) else None
    return Summary(len(some), mean([c.ratio for c in some]), mean([c.ratio for c in kept]), [c.name for c in some[len(kept):]],
                   some[0].ratio, some[0].name, some[-1].ratio, mean(in_chain) if in_chain else None)


def commits(data, keys):
    """The commits of some groups' rows, each once, in the order of the file."""
    return list(dict.fromkeys(c.commit for key in keys for c in cases(data, key)))


def source_line(data, keys):
    """Where figures come from: device, date, commits, command; one phrase."""
    if keys == ["cpu"]:
        c = data["cpu"]
        return f"{c['machine']}; {c['date']}; commit {c['commit']}; {c['command']}"
    g, n = data["gpu"], data["naive"]
    dates = sorted({n["date"]} if keys == ["naive"] else {g["date"], n["date"]} if "naive" in keys else {g["date"]})
    command = n["command"] if keys == ["naive"] else g["command"]
    named = commits(data, keys)
    return f"{g['device']}; {', '.join(dates)}; commit{'s' if len(named) > 1 else ''} {', '.join(named)}; {command}"
