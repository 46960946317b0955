#!/usr/bin/env python3
"""Puts the figures of bench/RESULTS.md into README and site: reads its tables into results.json, draws the charts in docs/images,
and fills the marked places of the pages.

    update.py            writes what has changed and names it
    update.py --check    writes nothing; fails if anything would change, or a page quotes a figure outside a marked place
    update.py --selftest

A marked place is <!-- figures: NAME -->...<!-- end -->, within a line or around whole ones. NAME is `table GROUP...` (a row for each
group; `all` stands for those of the overview), `source GROUP...` (lines with device, date, commits and command), GROUP.FIELD (one
number: mean, without, least, chain, count, most), `rates ROW...` (a table of what was reached in some rows), `rate ROW NAME` (what
Tessera or the named peer reached in a row) `start KERNELS first|second` (host time of a launch, in microseconds), `share
KERNEL COLUMNS TYPE THREADS` (of the speed of a copy, on the CPU), `cpu-token TYPE` and `cpu-prompt TYPE` (tokens of Mortar on the
CPU over those of PyTorch with such weights) or `cpu-rate SYSTEM TYPE token|prompt` (tokens a second).
A ROW is GROUP:WORK,shape=value,...
"""

import json
import pathlib
import posixpath
import re
import sys
import textwrap

import charts
import collect
import figures
import pictures

ROOT = collect.HERE.parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "docs"))
import nav  # noqa: E402

IMAGES = pathlib.Path("docs/images")
DATA = collect.DATA.relative_to(ROOT)
PLACE = re.compile(r"(<!-- figures: ([^>]+?) -->)(.*?)(<!-- end -->)", re.S)
# A speed, or a ratio to one of the peers, as prose says it.
QUOTED = re.compile(r"\d(?:[.,]\d+)? ?(?:[TG]B/s|[TG]FLOP/s|ms\b|us\b|ns\b|microseconds|milliseconds)"
                    r"|\b\d+\.\d+ (?:of|times|compared with) |\b\d+(?:\.\d+)? ?(?:x|times) (?:as fast|faster|slower)"
                    r"|\d ?% of (?:cu|Py|the (?:memory|peak))")

SETTING = "<!-- setting -->"  # on a line whose number was chosen, not measured


# Every speed that a page for users quotes comes from the data: those of the site but the generated ones and those about its own
# construction.
def pages():
    inside = [posixpath.normpath(f"docs/{p}") for title, found in nav.resolved(str(ROOT / "docs"))[0] for p in found
              if title not in ("Reference", "Internals", "Compiler")]
    return [ROOT / p for p in ["README.md", *inside]]


def table(data, keys):
    lines = ["| work | cases | compared with | mean | without the best fifth | least | in a chain |", "|---|---|---|---|---|---|---|"]
    for key in keys:
        group, s = figures.BY_KEY[key], figures.summary(data, key)
        chain = f"{s.chain:.2f}" if s.chain else ""
        lines.append(f"| {group.label} | {s.count} | {figures.shown(data, key)} | {s.mean:.2f} | {s.without_best:.2f} | {s.least:.2f} | {chain} |")
    return "\n\n" + "\n".join(lines) + "\n\n"


def rates(data, selectors):
    lines = []
    for selector in selectors:
        row = figures.row_of(data, selector)
        shape = dict(pair.split("=") for pair in row["shape"].split())
        peers = ", ".join(f"{figures.SHOWN.get(name, name)} {figures.rate_text(peer)}" for name, peer in row["peers"].items()
                          if name not in (figures.CHAIN, "cuTile"))
        lines.append(f"| {row['work'].replace('_', ' ')}, {shape['rows']} rows of {shape['columns']} | {figures.rate_text(row['tessera'])} | {peers} |")
    unit = figures.row_of(data, selectors[0])["tessera"]["unit"]
    return "\n\n" + "\n".join([f"| work | {unit} | compared with |", "|---|---|---|", *lines]) + "\n\n"


def value(data, key, field):
    s = figures.summary(data, key)
    number = {"mean": s.mean, "without": s.without_best, "least": s.least, "most": s.most, "chain": s.chain, "count": s.count}[field]
    if number is None:
        raise ValueError(f"{key} was not measured in a chain")
    return str(number) if field == "count" else f"{number:.2f}"


def mortar_cpu(data, system, weights):
    return next(r for r in data["mortar_cpu"]["rows"] if (r["system"], r["weights"]) == (system, weights))


def content(data, name):
    word, *keys = name.split()
    keys = charts.OVERVIEW + ["safety"] if keys == ["all"] else keys
    if word == "table":
        return table(data, keys)
    if word == "rates":
        return rates(data, keys)
    if word == "rate":
        return figures.quantity(data, keys[0], " ".join(keys[1:]))
    if word == "share":
        found = [r for r in data["cpu"]["shares"] if [r["kernel"], str(r["columns"]), r["dtype"], str(r["threads"])] == keys]
        return f"{found[0]['share']:.2f}"
    if word in ("cpu-token", "cpu-prompt"):
        return f"{mortar_cpu(data, 'PyTorch', keys[0])[word.removeprefix('cpu-') + '_ratio']:.2f}"
    if word == "cpu-rate":
        return f"{mortar_cpu(data, *keys[:2])[keys[2]]:.3g}"
    if word == "start":
        return f"{data['gpu']['start'][keys[0]][keys[1] + '_us']:g}"
    if word == "source":
        return "\n\n" + textwrap.fill(figures.source_line(data, keys) + ".", 99) + "\n\n"
    return value(data, *name.split("."))


def filled(text, data):
    return PLACE.sub(lambda m: m[1] + content(data, m[2]) + m[4], text)


def outputs(results):
    """{path relative to the root: text} of everything that follows from the tables."""
    data = collect.collect(results)
    files = {DATA: collect.as_json(data)}
    files |= {IMAGES / name: text for name, text in (charts.all_charts(data) | pictures.all_pictures()).items()}
    return files | {p.relative_to(ROOT): filled(p.read_text(encoding="utf-8"), data) for p in pages()}


def strays(path, text):
    """Lines of a page that quote a speed outside a marked place, a code block or a picture's link."""
    problems = [f"{path}:{text.count(chr(10), 0, m.start()) + 1}: a marked place that is broken, or at the start of a line of prose (Markdown "
                f"would begin a paragraph there)" for m in re.finditer(r"<!-- figures:", text)
                if not (place := PLACE.match(text, m.start())) or (text[: m.start()].endswith("\n") and "." in place[2])]
    blank = lambda m: re.sub(r"[^\n]", " ", m[0])  # noqa: E731  lines keep their numbers
    text = re.sub(r"^```.*?^```", blank, PLACE.sub(blank, text), flags=re.S | re.M)
    return problems + [f"{path}:{n}: a figure outside a marked place: {line.strip()}" for n, line in enumerate(text.split("\n"), 1)
                       if QUOTED.search(line) and SETTING not in line]


def check():
    problems = [f"{path} is not what bench/RESULTS.md says" for path, text in outputs(collect.RESULTS.read_text(encoding="utf-8")).items()
                if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text]
    drawn = set(charts.all_charts(json.loads((ROOT / DATA).read_text(encoding="utf-8"))))
    problems += [f"{p.relative_to(ROOT)} is drawn by no script" for p in sorted((ROOT / IMAGES).glob("cases-*.svg")) if p.name not in drawn]
    for p in pages():
        problems += strays(p.relative_to(ROOT), p.read_text(encoding="utf-8"))
    return problems


def selftest():
    results = collect.RESULTS.read_text(encoding="utf-8")
    data = collect.collect(results)
    least = data["naive"]["rows"][0]
    changed = collect.collect(results.replace(f"| {least['ratio']:.3f} | {least['commit']} |", f"| 9.999 | {least['commit']} |", 1))
    before, after = charts.all_charts(data), charts.all_charts(changed)
    assert {k for k in before if before[k] != after[k]} == {"ratios.svg", "cases-naive.svg"}, "a changed figure changes its charts"
    place = "a <!-- figures: naive.mean -->0.00<!-- end --> b"
    assert filled(place, data) != place and filled(place, data) != filled(place, changed), "and the pages"
    assert filled(filled(place, data), data) == filled(place, data)
    for text in ("It reaches 4.2 TB/s.", "It is 1.05 of cuBLAS.", "It takes 3 ms.", "twice; 12 times slower", "20 % of the memory",
                 "a\n<!-- figures: naive.mean -->1<!-- end -->", "a <!-- figures:\nnaive.mean -->1<!-- end -->"):
        assert strays("p", text), text
    for text in ("tileiras 13.3 or newer", "```\n4.2 TB/s\n```", "at <!-- figures: a.mean -->1.05<!-- end --> of cuBLAS", "CMake 3.25",
                 "It rests for 3 ms. <!-- setting -->"):
        assert not strays("p", text), text
    rate = "a <!-- figures: rate naive:column_sums tessera -->0<!-- end --> b"
    slower = json.loads(json.dumps(data))
    figures.row_of(slower, "naive:column_sums")["tessera_ms"] = 77.0
    assert "77.00" in filled(rate, slower) and "77.00" not in filled(rate, data), "so does what was reached in one row"
    for selector in ("naive:no_such_case", "rows:softmax"):
        try:
            figures.row_of(data, selector)
        except ValueError:
            continue
        raise AssertionError(f"{selector} names no single row")
    alone = json.loads(json.dumps(data))
    rows = figures.gpu_rows(alone, figures.BY_KEY["odd_rows"])
    slower = figures.cases(alone, "odd_rows")[0].ratio
    for peer in rows[0]["peers"].values():
        assert peer["ratio"] >= slower, "the better of PyTorch and torch.compile counts"
    assert figures.shown(alone, "odd_rows") == figures.BETTER
    for row in rows:
        del row["peers"]["torch.compile"]
    assert figures.shown(alone, "odd_rows") == "eager PyTorch", "what was never compiled says so"
    rows[0]["peers"] = {}
    try:
        figures.cases(alone, "odd_rows")
    except ValueError as error:
        assert "measured without" in str(error)
    else:
        raise AssertionError("a row without a peer has a figure")
    s = figures.summary(data, "squares")
    assert s.least <= s.without_best <= s.mean <= s.most and len(s.best) == 6
    print("figures follow the data")


def main():
    if sys.argv[1:] == ["--selftest"]:
        return selftest()
    if sys.argv[1:] == ["--check"]:
        problems = check()
        print("\n".join(problems + (["Run bench/figures/update.py."] if problems else [])))
        return 1 if problems else 0
    (ROOT / IMAGES).mkdir(exist_ok=True)
    for path, text in outputs(collect.RESULTS.read_text(encoding="utf-8")).items():
        if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != text:
            (ROOT / path).write_text(text, encoding="utf-8")
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
