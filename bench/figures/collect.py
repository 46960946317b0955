#!/usr/bin/env python3
"""Reads the tables of bench/RESULTS.md into results.json, the one data file of all figures in README and the site.

    collect.py              writes bench/figures/results.json
    collect.py --selftest

Every column is kept as a number with its unit; nothing is derived here (figures.py does that).
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
RESULTS = HERE.parent / "RESULTS.md"
DATA = HERE / "results.json"
CHAIN = "Tessera in a chain"


def part(text, begin, end):
    if begin not in text or end not in text:
        raise ValueError(f"bench/RESULTS.md has no section between {begin} and {end}")
    return text.split(begin, 1)[1].split(end, 1)[0]


def rows_of(text):
    """The cells of every table row below a table's head."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| ") and cells[0] not in ("work", "case", "kernel", "system"):
            yield cells


def rate(text):
    """"~4.15 TB/s" as a rate; a ~ says that its rounds differ by more than a twentieth."""
    found = re.fullmatch(r"(~?)([0-9.]+) (\S+)", text)
    if not found:
        raise ValueError(f"not a rate: {text}")
    return {"value": float(found[2]), "unit": found[3], "unsteady": bool(found[1])}


def measured(text, pattern):
    """What a pattern finds in the text as it is, or with its lines joined: sentences are broken where they are long."""
    found = re.search(pattern, text, re.M) or re.search(pattern, " ".join(text.split()))
    if not found:
        raise ValueError(f"bench/RESULTS.md does not say: {pattern}")
    return found[1]


def cpu(text):
    section = part(text, "<!-- begin: bench/run_cpu.sh -->", "<!-- end: bench/run_cpu.sh -->")
    rows = [{"work": c[0], "threads": int(c[1]), "tessera": rate(c[2]), "peer": float(c[3]), "ratio": float(c[4]),
             "ratio_of_processor_time": float(c[5])} for c in rows_of(section) if len(c) == 6]
    shares = [{"kernel": c[0], "columns": int(c[1]), "dtype": c[2], "threads": int(c[3]), "tessera": rate(c[4]), "copy": float(c[5]),
               "share": float(c[-1])} for c in rows_of(section) if len(c) in (7, 8)]  # of a copy's speed, by processor time
    note = section.split("\nRows of tensors", 1)[-1].split("\n\n", 1)[0]
    return {"shares": shares, "shares_date": (re.search(r"\d{4}-\d\d-\d\d", note) or [None])[0],
            "command": measured(section, r"`([^`]+)` at "), "commit": measured(section, r"` at ([0-9a-f]+),"),
            "date": measured(section, r", (\d{4}-\d\d-\d\d): "), "machine": measured(section, r"-\d\d: (?:[a-z0-9 ,]*, )?(\S.*?), load "),
            "rows": rows}


def mortar_cpu(text):
    section = part(text, "<!-- begin: bench/mortar/cpu_peers.py -->", "<!-- end: bench/mortar/cpu_peers.py -->")
    rows = [{"system": c[0], "weights": c[1], "token": float(c[2]), "token_ratio": float(c[3]), "prompt": float(c[4]),
             "prompt_ratio": float(c[5])} for c in rows_of(section)]
    return {"command": measured(section, r"`([^`]+)` at "), "commit": measured(section, r"` at ([0-9a-f]+),"),
            "date": measured(section, r"(\d{4}-\d\d-\d\d)"), "torch": measured(section, r"PyTorch ([0-9.]*\d)"), "rows": rows}


def naive(text):
    section = part(text, "<!-- begin: bench/generality -->", "<!-- end: bench/generality -->")
    rows = []
    for c in rows_of(section):
        name, _, shape = c[0].partition(" ")
        rows.append({"case": name, "shape": shape, "tessera_ms": float(c[1]), "eager_ms": float(c[2]), "compiled_ms": float(c[3]),
                     "ratio": float(c[4]), "commit": c[5]})
    return {"command": measured(section, r"`(scripts/gpu-check\.sh [^`]*)`"), "date": measured(section, r"(\d{4}-\d\d-\d\d)"),
            "torch": measured(section, r"PyTorch ([0-9.]*\d)"), "rows": rows}


def gpu(text):
    section = part(text, "<!-- gpu: begin -->", "<!-- gpu: end -->")
    groups = []
    for block in section.split("\n### ")[1:]:
        title, _, body = block.partition("\n")
        rows = []
        for work, shape, ours, peers, ratios, _asked, _met, commit in rows_of(body):
            named = [re.fullmatch(r"(.*?) (~?[0-9.]+ \S+)", p) for p in peers.split(", ")]
            numbers = [float(r) for r in ratios.split(", ")]
            if len(named) != len(numbers) or None in named:
                raise ValueError(f"peers and ratios do not agree: {work} {shape}")
            rows.append({"work": work, "shape": shape, "tessera": rate(ours), "commit": commit,
                         "peers": {n[1]: rate(n[2]) | {"ratio": r} for n, r in zip(named, numbers)}})
        groups.append({"title": title, "rows": rows})
    start = {name.replace(" ", "_"): {"first_us": float(first), "second_us": float(second)} for name, first, second in
             re.findall(r"^  (\w[\w ]*\w) +first launch +([0-9.]+) us .*second +([0-9.]+) us$", section, re.M)}
    return {"command": "scripts/gpu-check.sh --full", "start": start, "device": measured(section, r"^## GPU: (.*), driver API"),
            "date": measured(section, r"^(\d{4}-\d\d-\d\d) \d\d:\d\d UTC"),
            "driver": measured(section, r"^NVIDIA [^,]*, ([0-9.]+), \d+ MiB"), "tileiras": measured(section, r"^tileiras\s+V(\S+)"),
            "torch": measured(section, r"^torch\s+(\S+)"), "cutile": measured(section, r"^cuda\.tile\s+(\S+)"), "groups": groups}


def collect(text):
    return {"cpu": cpu(text), "mortar_cpu": mortar_cpu(text), "naive": naive(text), "gpu": gpu(text)}


def as_json(data):
    """One row a line, so that a change of one measurement is a change of one line."""
    return dump(data, 0) + "\n"


def dump(value, depth):
    pad = " " * (depth + 1)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + dump(v, depth + 1) for v in value) + "\n" + " " * depth + "]"
    if isinstance(value, dict) and any(isinstance(v, (list, dict)) for v in value.values()) and "shape" not in value and "work" not in value:
        return "{\n" + ",\n".join(f"{pad}{json.dumps(k)}: {dump(v, depth + 1)}" for k, v in value.items()) + "\n" + " " * depth + "}"
    return json.dumps(value, ensure_ascii=False)


def selftest():
    assert rate("~4.15 TB/s") == {"value": 4.15, "unit": "TB/s", "unsteady": True}
    data = collect(RESULTS.read_text(encoding="utf-8"))
    assert data["cpu"]["rows"] and data["cpu"]["shares"] and len(data["mortar_cpu"]["rows"]) == 4 and data["gpu"]["start"], "no table is passed over"
    assert json.loads(as_json(data)) == data, "nothing is lost on the way to the file"
    text = RESULTS.read_text(encoding="utf-8")
    for broken in (re.search(r"\| [0-9.]+ TB/s \|", text)[0], "<!-- gpu: begin -->"):
        try:
            collect(text.replace(broken, "| a lot |", 1))
        except ValueError:
            continue
        raise AssertionError(f"damage was not noticed: {broken}")
    print("the tables are read whole")


if __name__ == "__main__":
    if sys.argv[1:] == ["--selftest"]:
        sys.exit(selftest())
    DATA.write_text(as_json(collect(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")
